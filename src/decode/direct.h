// Where instructions go whose target is in the instruction: the same on every machine.
#pragma once

#include "decode/flow.h"

namespace brink::decode {

// `taken`: whether a condition holds with these registers. Nothing for other flows.
template <typename Regs>
std::optional<Outcome> DirectOutcome(const Insn& insn, const Regs& regs, bool (*taken)(const Insn&, const Regs&)) {
  const uint64_t next = regs.ip + insn.length;
  switch (insn.flow) {
    case Flow::kNext: return Outcome{false, next};
    case Flow::kCond: return taken(insn, regs) ? Outcome{true, insn.target} : Outcome{false, next};
    case Flow::kJump:
    case Flow::kCall: return Outcome{true, insn.target};
    default: return std::nullopt;
  }
}

}  // namespace brink::decode
