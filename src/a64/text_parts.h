// Pieces of text that every class of instruction uses.
#pragma once

#include <cstdint>
#include <string>

#include "a64/encoding.h"

namespace brink::a64 {

enum class Last : uint8_t { kZero, kStack };  // what register 31 stands for

std::string Reg(uint32_t number, bool wide, Last last = Last::kZero);
// b, h, s, d, q register by the logarithm of its size in bytes.
std::string VectorReg(uint32_t number, uint32_t log2_size);
const char* ConditionName(uint32_t condition);
std::string Hex(uint64_t value);  // 0x40

// Empty: not of this kind, or not known to it.
std::string DataText(uint32_t word, Form form, uint64_t ip);
std::string MemoryText(uint32_t word, Form form, uint64_t ip);
std::string ControlText(uint32_t word, Form form, uint64_t ip);

}  // namespace brink::a64
