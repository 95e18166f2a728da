#include <cstring>

#include "a64/encoding.h"
#include "decode/direct.h"

namespace brink::decode {
namespace {

using a64::Bit;
using a64::Bits;
using a64::Form;
using a64::Rd;
using a64::Rn;

constexpr size_t kBytes = 4;
constexpr uint32_t kStackRegister = 31;  // in address and add/subtract fields; elsewhere it reads as zero
constexpr uint8_t kLink = 30;

uint64_t Displaced(uint64_t ip, uint32_t word, int high, int low) {
  return ip + static_cast<uint64_t>(a64::SignedBits(word, high, low) * 4);
}

void FillCompare(uint32_t word, uint64_t ip, Form form, Insn* out) {
  const bool test = form == Form::kTestBranch;
  out->flow = Flow::kCond;
  out->source = {.where = Location::kRegister, .base = static_cast<uint8_t>(Rd(word))};
  out->count32 = !Bit(word, 31);
  out->bit = static_cast<uint8_t>(Bit(word, 31) << 5 | Bits(word, 23, 19));
  if (test) out->condition = Bit(word, 24) ? Insn::kBitSet : Insn::kBitZero;
  else out->condition = Bit(word, 24) ? Insn::kRegNotZero : Insn::kRegZero;
  out->target = test ? Displaced(ip, word, 18, 5) : Displaced(ip, word, 23, 5);
}

// br, blr, ret and their forms with authentication. False: no such word.
bool FillRegisterBranch(uint32_t word, bool authenticated, Insn* out) {
  constexpr Flow kFlows[] = {Flow::kIndJump, Flow::kIndCall, Flow::kRet};
  const uint32_t which = Bits(word, 22, 21);
  if (which > 2) return false;
  out->flow = kFlows[which];
  const bool link = authenticated && which == 2;  // retaa, retab name no register
  out->source = {.where = Location::kRegister, .base = link ? kLink : static_cast<uint8_t>(Rn(word)), .authenticated = authenticated};
  return true;
}

// What these forms write through their first register field when that is the stack pointer.
void FillStack(uint32_t word, Form form, Insn* out) {
  StackEffect& stack = out->stack;
  switch (form) {
    case Form::kAddSubImmediate: {
      if (Rd(word) != kStackRegister || Bit(word, 29)) return;
      const auto amount = static_cast<int32_t>(Bits(word, 21, 10) << (Bit(word, 22) ? 12 : 0));
      stack.known = Rn(word) == kStackRegister;
      if (stack.known) stack.delta = Bit(word, 30) ? -amount : amount;
      return;
    }
    case Form::kAddSubExtended: stack.known = Rd(word) != kStackRegister || Bit(word, 29); return;
    case Form::kLogicalImmediate: stack.known = Rd(word) != kStackRegister || Bits(word, 30, 29) == 3; return;
    case Form::kAddTag:
    case Form::kTwoSources:  // irg
      stack.known = Rd(word) != kStackRegister;
      return;
    case Form::kPair: stack.known = Rn(word) != kStackRegister || !Bit(word, 23); return;  // pre- and post-indexed
    case Form::kPre:
    case Form::kPost:
    case Form::kVectorMultiplePost:
    case Form::kVectorSinglePost:
    case Form::kMemoryTag:
    case Form::kAuthenticated: stack.known = Rn(word) != kStackRegister; return;
    default: return;
  }
}

bool Holds(uint32_t condition, uint64_t flags) {
  const bool n = flags >> 31 & 1, z = flags >> 30 & 1, c = flags >> 29 & 1, v = flags >> 28 & 1;
  bool holds = true;
  switch (condition >> 1) {
    case 0: holds = z; break;
    case 1: holds = c; break;
    case 2: holds = n; break;
    case 3: holds = v; break;
    case 4: holds = c && !z; break;
    case 5: holds = n == v; break;
    case 6: holds = n == v && !z; break;
    default: return true;  // both forms of "always"
  }
  return holds != (condition & 1);
}

bool Taken(const Insn& insn, const A64Regs& regs) {
  if (insn.condition < 16) return Holds(insn.condition, regs.flags);
  uint64_t value = insn.source.base == kStackRegister ? 0 : regs.gpr[insn.source.base];
  if (insn.condition >= Insn::kBitZero) return (value >> insn.bit & 1) == (insn.condition == Insn::kBitSet);
  if (insn.count32) value &= 0xffffffff;
  return (value == 0) == (insn.condition == Insn::kRegZero);
}

}  // namespace

std::optional<Insn> DecodeA64(std::span<const uint8_t> bytes, uint64_t ip) {
  if (bytes.size() < kBytes || ip % kBytes != 0) return std::nullopt;
  uint32_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  const Form form = a64::FormOf(word);
  Insn out;
  out.length = kBytes;
  switch (form) {
    case Form::kUnallocated: return std::nullopt;
    case Form::kCondBranch:
      out.flow = Flow::kCond;
      out.condition = static_cast<uint8_t>(Bits(word, 3, 0));
      out.target = Displaced(ip, word, 23, 5);
      break;
    case Form::kBranchImmediate:
      out.flow = Bit(word, 31) ? Flow::kCall : Flow::kJump;
      out.target = Displaced(ip, word, 25, 0);
      break;
    case Form::kCompareBranch:
    case Form::kTestBranch: FillCompare(word, ip, form, &out); break;
    case Form::kBranchRegister:
    case Form::kBranchRegisterPac:
      if (!FillRegisterBranch(word, form == Form::kBranchRegisterPac, &out)) return std::nullopt;
      break;
    case Form::kException: out.flow = Bits(word, 23, 21) == 0 && Bits(word, 4, 0) == 1 ? Flow::kSyscall : Flow::kOther; break;
    case Form::kExceptionReturn: out.flow = Flow::kOther; break;
    case Form::kExclusive:
      // The same class has ordered loads and stores (bit 23) and compare-and-swap of pairs, which need no monitor.
      out.exclusive = !Bit(word, 23) && (Bit(word, 31) || !Bit(word, 21));
      out.stores = !Bit(word, 22);
      break;
    default: FillStack(word, form, &out); break;
  }
  return out;
}

std::optional<Outcome> Evaluate(const Insn& insn, const A64Regs& regs, Memory&) {
  switch (insn.flow) {
    case Flow::kIndJump:
    case Flow::kIndCall:
    case Flow::kRet: {
      const uint64_t target = insn.source.base == kStackRegister ? 0 : regs.gpr[insn.source.base];
      return Outcome{true, insn.source.authenticated ? regs.code(target) : target};
    }
    default: return DirectOutcome(insn, regs, Taken);
  }
}

}  // namespace brink::decode
