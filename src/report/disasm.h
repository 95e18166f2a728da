// Machine code as text and as control flow (x86 by Zydis, A64 by our own tables; of other machines nothing is decoded).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"

namespace brink::report {

struct Instruction {
  uint64_t address = 0;
  uint8_t length = 0;
  Kind kind = Kind::kUnknown;        // of branches; kUnknown for all others
  bool branch = false;
  std::optional<uint64_t> target;    // direct branches
  std::string text;                  // "jne 0x1140"; "(bad)" for a byte that starts no instruction
};

// Decodes linearly from `address` to the end of `code`. What does not decode becomes an Instruction of length 1
// (A64: of 4, as data between functions).
std::vector<Instruction> Disassemble(std::string_view code, uint64_t address, uint16_t machine, bool with_text = true);

// The first instruction only; nothing when it does not decode or the machine is not known.
std::optional<Instruction> DecodeOne(std::string_view code, uint64_t address, uint16_t machine, bool with_text = false);

inline constexpr size_t kMaxInstruction = 15;

}  // namespace brink::report
