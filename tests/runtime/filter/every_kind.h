// A program that takes every kind of user branch within a few dozen, wherever it is stopped; some well predicted, some not.
#pragma once

#include <fstream>
#include <string>

#include "support/process.h"

namespace brink::testing_filter {

inline constexpr char kEveryKind[] = R"(
#include <stdlib.h>
typedef unsigned (*step)(unsigned);
__attribute__((noinline)) unsigned add(unsigned x) { return x * 2654435761u + 1; }
__attribute__((noinline)) unsigned mix(unsigned x) { return (x >> 7) ^ (x << 3); }
__attribute__((noinline)) unsigned rot(unsigned x) { return x << 5 | x >> 27; }
static step steps[] = {add, mix, rot};
__attribute__((noinline)) unsigned choose(unsigned x) {
  static void *places[] = {&&one, &&two, &&three};
  goto *places[x % 3];
one:
  x += 17;
  goto out;
two:
  x ^= 0x5bd1e995;
  goto out;
three:
  x = add(x);
out:
  return x;
}
int main(int argc, char **argv) {
  unsigned x = 1, rounds = argc > 1 ? atoi(argv[1]) : 40000000;
  for (unsigned i = 0; i < rounds; i++) {
    x = steps[x % 3](x);
    if (x & 64) x = mix(x);  /* hard to predict */
    x = choose(x);
  }
  return x == 3;
}
)";

// False where there is no compiler.
inline bool BuildEveryKind(const std::string& program) {
  std::ofstream(program + ".c") << kEveryKind;
  // At fixed addresses, so that objdump's are those of a recording; jumps and branches as written.
  return testing_support::Run({"gcc", "-O1", "-g", "-no-pie", "-fcf-protection=none", "-fno-if-conversion", "-fno-if-conversion2", "-o", program, program + ".c"}).status == 0;
}

}  // namespace brink::testing_filter
