// Random A64 instructions of a class, and states in which they do something.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "a64/encoding.h"
#include "walk/lifter.h"

extern "C" {
#include "case.h"
}

namespace brink::walk_test {

// What a case starts from: the machine's view of it, and which of it the walker does not know.
struct A64Case {
  a64_input input;
  int words = 1;
  walk::Insn lifted[2];
  bool all_known = true;
  uint64_t x_unknown[31] = {};
  uint32_t flags_unknown = 0;
  uint16_t vector_known[32];
  uint64_t memory_known[A64_WINDOW_SIZE / 64];
};

class A64Source {
 public:
  // Options: of the machine that runs the cases.
  explicit A64Source(uint64_t seed, const walk::LiftOptions& options = walk::LiftOptions::A64()) : random_(seed), lifter_(options) {}

  // A random word of one row of the table.
  uint32_t Word(const a64::Row& row);
  // A case of a word of that row that the lifter follows and that may be executed here. False: none was found.
  bool Make(const a64::Row& row, uint32_t slot, A64Case* out);
  // Two words that belong together: exclusive accesses, pointer authentication.
  void MakePair(uint32_t slot, A64Case* out);

 private:
  uint64_t Random() { return random_(); }
  uint64_t Interesting();
  bool MayRun(uint32_t word, const walk::Insn& insn);
  bool Lift(uint32_t word, walk::Insn* out);
  void Fill(A64Case* out);
  void Place(uint32_t slot, A64Case* out);
  void SetGeneral(A64Case* out, uint32_t reg, uint64_t value);

  std::mt19937_64 random_;
  walk::Lifter lifter_;
};

}  // namespace brink::walk_test
