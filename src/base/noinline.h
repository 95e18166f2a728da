// A function that stays one function with one address: probes, breakpoints and known addresses need it. Needs no C++.
#pragma once

#ifdef __clang__  // makes no clones for constant arguments, and does not know the attribute
#define BRINK_NOINLINE __attribute__((noinline))
#else
#define BRINK_NOINLINE __attribute__((noinline, noclone))
#endif
