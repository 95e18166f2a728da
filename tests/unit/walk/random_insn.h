// Random machine code that decodes to something the lifter computes.
#pragma once

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>
#include <random>

#include "cpu_diff.h"
#include "walk/lifter.h"

namespace brink::walk_test {

struct RandomInsn {
  uint8_t bytes[16];
  walk::Insn lifted;
  ZydisDecodedInstruction decoded;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  int memory = -1;  // explicit memory operand, or -1
};

class InsnSource {
 public:
  InsnSource(uint64_t seed, DiffOptions::Family family);
  // Draws until an instruction fits the family.
  RandomInsn Next();
  std::mt19937_64& random() { return random_; }

 private:
  void Draw(uint8_t* bytes);
  bool Accept(RandomInsn* insn);

  std::mt19937_64 random_;
  DiffOptions::Family family_;
  ZydisDecoder decoder_;
  walk::Lifter lifter_;
};

}  // namespace brink::walk_test
