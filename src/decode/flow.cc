#include "decode/flow.h"

namespace brink::decode {

Kind KindOf(Flow flow) {
  switch (flow) {
    case Flow::kCond: return Kind::kCond;
    case Flow::kJump: return Kind::kJump;
    case Flow::kIndJump: return Kind::kIndJump;
    case Flow::kCall: return Kind::kCall;
    case Flow::kIndCall: return Kind::kIndCall;
    case Flow::kRet: return Kind::kRet;
    case Flow::kSyscall: return Kind::kSyscall;
    case Flow::kNext:
    case Flow::kOther: break;
  }
  return Kind::kUnknown;
}

std::optional<Insn> Decode(Machine machine, std::span<const uint8_t> bytes, uint64_t ip) {
  return machine == Machine::kA64 ? DecodeA64(bytes, ip) : DecodeX86(bytes, ip);
}

}  // namespace brink::decode
