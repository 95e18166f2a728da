// Instruction words as LLVM's disassembler reads them: the second opinion on what a word is.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace brink::walk_test {

struct Disassembled {
  bool valid = false;
  std::string mnemonic;
  std::string operands;
};

// One for each word; nothing where the disassembler is not installed or failed.
std::optional<std::vector<Disassembled>> Disassemble(std::span<const uint32_t> words);

// Numbers of the general registers in the operands, 31 for the stack pointer; the zero register is left out.
std::set<int> GeneralRegisters(const std::string& operands);
// Number of the first vector register in the operands, -1: none.
int FirstVector(const std::string& operands);
// Numbers of all of them.
std::set<int> VectorRegisters(const std::string& operands);
// The number behind the last '#', nothing where there is none.
std::optional<int64_t> LastImmediate(const std::string& operands);

}  // namespace brink::walk_test
