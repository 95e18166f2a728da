// A64 instructions as assembler text, for annotated listings: the integer instructions, loads and stores, branches and
// system instructions in LLVM's spelling. What is left (most of scalar and vector arithmetic) is shown as its word and
// class: `.inst 0x4ea11c20 ; vector same`.
#pragma once

#include <cstdint>
#include <string>

namespace brink::a64 {

// `ip`: where the word stands; targets of direct branches and of adr and adrp are printed as addresses.
std::string TextOf(uint32_t word, uint64_t ip);

}  // namespace brink::a64
