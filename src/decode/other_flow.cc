// A64 joins with its own CpuRegs and decoder; until a build has them, nothing decodes and the exact sources refuse.
#include "decode/flow.h"

#ifndef __x86_64__

namespace brink::decode {

std::optional<Insn> Decode(std::span<const uint8_t>, uint64_t) { return std::nullopt; }
std::optional<Outcome> Evaluate(const Insn&, const CpuRegs&, Memory&) { return std::nullopt; }

}  // namespace brink::decode

#endif
