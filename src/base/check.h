// CHECK: for broken invariants of our own code only; never for input.
#pragma once

#include <cstdio>
#include <cstdlib>

// Prints the condition and its place on stderr and aborts. Active in every build.
#define BRINK_CHECK(cond)                                                                    \
  do {                                                                                       \
    if (!(cond)) [[unlikely]] {                                                              \
      std::fprintf(stderr, "brink: internal error: %s at %s:%d\n", #cond, __FILE__, __LINE__); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (0)
