// Text of instructions, for reports.
#pragma once

#include <cstdint>
#include <string>

#include "decode/flow.h"

namespace brink::fidelity {

// "401000  48 89 e5        mov rbp, rsp"; "(unreadable)" or "(bad)" where there is none.
std::string DisassembleAt(uint64_t ip, decode::Memory& memory);
// "mov", "vpcmpub"; "?" where it cannot be decoded.
std::string MnemonicAt(uint64_t ip, decode::Memory& memory);

}  // namespace brink::fidelity
