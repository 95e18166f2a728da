#include <Zydis/Zydis.h>

#include "decode/direct.h"

namespace brink::decode {
namespace {

constexpr uint64_t kCarry = 1, kParity = 4, kZero = 0x40, kSign = 0x80, kOverflow = 0x800;
constexpr uint8_t kSp = 4;

const ZydisDecoder& Decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  return decoder;
}

struct Decoded {
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

uint8_t RegisterNumber(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_NONE) return Location::kNoRegister;
  ZyanI8 id = ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));
  return id < 0 ? Location::kNoRegister : static_cast<uint8_t>(id);
}

Location MemoryLocation(const Decoded& d, const ZydisDecodedOperand& operand) {
  const auto& mem = operand.mem;
  Location out{.where = Location::kMemory, .displacement = mem.disp.value};
  out.ip_relative = mem.base == ZYDIS_REGISTER_RIP || mem.base == ZYDIS_REGISTER_EIP;
  if (!out.ip_relative) out.base = RegisterNumber(mem.base);
  out.index = RegisterNumber(mem.index);
  out.scale = mem.scale;
  out.address32 = d.insn.address_width == 32;
  if (mem.segment == ZYDIS_REGISTER_FS) out.segment = Location::kFs;
  if (mem.segment == ZYDIS_REGISTER_GS) out.segment = Location::kGs;
  return out;
}

// Direct or indirect near transfer; far ones stay kOther.
void FillTransfer(const Decoded& d, uint64_t ip, Flow direct, Flow indirect, Insn* out) {
  const ZydisDecodedOperand& operand = d.operands[0];
  bool far = d.insn.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand.imm.is_relative && !far) {
    out->flow = direct;
    out->target = ip + d.insn.length + static_cast<uint64_t>(operand.imm.value.s);
  } else if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && !far) {
    out->flow = indirect;
    out->source = {.where = Location::kRegister, .base = RegisterNumber(operand.reg.value)};
  } else if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && !far) {
    out->flow = indirect;
    out->source = MemoryLocation(d, operand);
  } else {
    out->flow = Flow::kOther;
  }
}

void FillCondition(const Decoded& d, uint64_t ip, Insn* out) {
  FillTransfer(d, ip, Flow::kCond, Flow::kOther, out);
  switch (d.insn.mnemonic) {
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ: out->condition = Insn::kRcxZero; break;
    case ZYDIS_MNEMONIC_LOOP: out->condition = Insn::kLoop; break;
    case ZYDIS_MNEMONIC_LOOPE: out->condition = Insn::kLoopEqual; break;
    case ZYDIS_MNEMONIC_LOOPNE: out->condition = Insn::kLoopNotEqual; break;
    default: out->condition = d.insn.opcode & 15; break;
  }
  out->count32 = d.insn.address_width == 32;
}

void FillFlow(const Decoded& d, uint64_t ip, Insn* out) {
  switch (d.insn.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
      if (d.insn.mnemonic == ZYDIS_MNEMONIC_XBEGIN) out->flow = Flow::kOther;  // an abort may come from anywhere
      else if (d.insn.mnemonic != ZYDIS_MNEMONIC_XEND) FillCondition(d, ip, out);
      return;
    case ZYDIS_CATEGORY_UNCOND_BR: return FillTransfer(d, ip, Flow::kJump, Flow::kIndJump, out);
    case ZYDIS_CATEGORY_CALL: return FillTransfer(d, ip, Flow::kCall, Flow::kIndCall, out);
    case ZYDIS_CATEGORY_RET:
      out->flow = d.insn.mnemonic == ZYDIS_MNEMONIC_RET && d.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_FAR
                      ? Flow::kRet : Flow::kOther;
      if (d.insn.operand_count_visible == 1) out->stack.delta = static_cast<int32_t>(d.operands[0].imm.value.u);
      return;
    case ZYDIS_CATEGORY_SYSCALL: out->flow = Flow::kSyscall; return;
    case ZYDIS_CATEGORY_SYSRET: out->flow = Flow::kOther; return;
    case ZYDIS_CATEGORY_INTERRUPT:
      out->flow = d.insn.mnemonic == ZYDIS_MNEMONIC_INT && d.operands[0].imm.value.u == 0x80 ? Flow::kSyscall
                                                                                             : Flow::kOther;
      return;
    default: break;
  }
  switch (d.insn.mnemonic) {
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_UIRET:
    case ZYDIS_MNEMONIC_XABORT: out->flow = Flow::kOther; break;
    default: break;
  }
}

bool IsSp(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && RegisterNumber(operand.reg.value) == kSp &&
         ZydisRegisterGetClass(operand.reg.value) == ZYDIS_REGCLASS_GPR64;
}

bool WritesSp(const Decoded& d) {
  for (int i = 0; i < d.insn.operand_count; ++i) {
    const ZydisDecodedOperand& o = d.operands[i];
    if (o.type != ZYDIS_OPERAND_TYPE_REGISTER || !(o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    ZydisRegisterClass klass = ZydisRegisterGetClass(o.reg.value);
    bool general = klass == ZYDIS_REGCLASS_GPR64 || klass == ZYDIS_REGCLASS_GPR32 || klass == ZYDIS_REGCLASS_GPR16 ||
                   klass == ZYDIS_REGCLASS_GPR8;
    if (general && RegisterNumber(o.reg.value) == kSp) return true;
  }
  return false;
}

// push and pop forms move sp by the width of their stack operand (the last memory operand, hidden).
int PushWidth(const Decoded& d) {
  for (int i = d.insn.operand_count - 1; i >= 0; --i) {
    const ZydisDecodedOperand& o = d.operands[i];
    if (o.type == ZYDIS_OPERAND_TYPE_MEMORY && o.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN) return o.size / 8;
  }
  return 0;
}

void FillStackMove(const Decoded& d, Insn* out) {
  StackEffect& stack = out->stack;
  int width = PushWidth(d);
  const auto& second = d.operands[1];
  bool constant = d.insn.operand_count_visible == 2 && IsSp(d.operands[0]) &&
                  second.type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  switch (d.insn.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ:
      stack.delta = -width;
      stack.store_size = static_cast<uint16_t>(width);
      stack.store_offset = -width;
      break;
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
      stack.known = d.insn.operand_count_visible == 0 || !IsSp(d.operands[0]);
      stack.delta = width;
      break;
    case ZYDIS_MNEMONIC_ADD:
      stack.known = constant;
      stack.delta = static_cast<int32_t>(second.imm.value.s);
      break;
    case ZYDIS_MNEMONIC_SUB:
      stack.known = constant;
      stack.delta = -static_cast<int32_t>(second.imm.value.s);
      break;
    case ZYDIS_MNEMONIC_LEA: {
      const auto& mem = second.mem;
      stack.known = IsSp(d.operands[0]) && mem.base == ZYDIS_REGISTER_RSP && mem.index == ZYDIS_REGISTER_NONE;
      stack.delta = static_cast<int32_t>(mem.disp.value);
      break;
    }
    default: stack.known = false; break;
  }
  if (!stack.known) stack.delta = 0;
}

// Explicit stores relative to sp, so that an overwritten return address is noticed.
void FillStackStore(const Decoded& d, Insn* out) {
  for (int i = 0; i < d.insn.operand_count_visible; ++i) {
    const ZydisDecodedOperand& o = d.operands[i];
    if (o.type != ZYDIS_OPERAND_TYPE_MEMORY || !(o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (o.mem.base != ZYDIS_REGISTER_RSP) continue;
    // With an index the offset is anybody's guess: treated as a store over the whole neighbourhood.
    bool indexed = o.mem.index != ZYDIS_REGISTER_NONE;
    out->stack.store_size = indexed ? UINT16_MAX : static_cast<uint16_t>(o.size / 8);
    out->stack.store_offset = indexed ? 0 : o.mem.disp.value;
  }
}

bool ConditionHolds(uint8_t condition, uint64_t flags) {
  bool sign_differs = !!(flags & kSign) != !!(flags & kOverflow);
  bool holds = false;
  switch (condition >> 1) {
    case 0: holds = flags & kOverflow; break;
    case 1: holds = flags & kCarry; break;
    case 2: holds = flags & kZero; break;
    case 3: holds = flags & (kCarry | kZero); break;
    case 4: holds = flags & kSign; break;
    case 5: holds = flags & kParity; break;
    case 6: holds = sign_differs; break;
    case 7: holds = sign_differs || (flags & kZero); break;
  }
  return holds != (condition & 1);
}

bool Taken(const Insn& insn, const X86Regs& regs) {
  if (insn.condition < Insn::kRcxZero) return ConditionHolds(insn.condition, regs.flags);
  uint64_t mask = insn.count32 ? 0xffffffff : ~uint64_t{0};
  uint64_t count = regs.gpr[1] & mask;
  if (insn.condition == Insn::kRcxZero) return count == 0;
  bool more = ((count - 1) & mask) != 0;
  if (insn.condition == Insn::kLoopEqual) return more && (regs.flags & kZero);
  if (insn.condition == Insn::kLoopNotEqual) return more && !(regs.flags & kZero);
  return more;
}

uint64_t Address(const Location& where, const X86Regs& regs, uint64_t next_ip) {
  uint64_t address = static_cast<uint64_t>(where.displacement);
  if (where.ip_relative) address += next_ip;
  if (where.base != Location::kNoRegister) address += regs.gpr[where.base];
  if (where.index != Location::kNoRegister) address += regs.gpr[where.index] * where.scale;
  if (where.address32) address &= 0xffffffff;
  if (where.segment == Location::kFs) address += regs.fs_base;
  if (where.segment == Location::kGs) address += regs.gs_base;
  return address;
}

std::optional<Outcome> ReadTarget(Memory& memory, uint64_t address) {
  uint64_t target = 0;
  if (memory.Read(address, &target, sizeof target) != sizeof target) return std::nullopt;
  return Outcome{true, target};
}

}  // namespace

std::optional<Insn> DecodeX86(std::span<const uint8_t> bytes, uint64_t ip) {
  Decoded d;
  size_t size = std::min(bytes.size(), kMaxInsnBytes);
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&Decoder(), bytes.data(), size, &d.insn, d.operands))) return std::nullopt;
  Insn out;
  out.length = d.insn.length;
  out.repeats = d.insn.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
  out.pushes_flags = d.insn.mnemonic == ZYDIS_MNEMONIC_PUSHFQ || d.insn.mnemonic == ZYDIS_MNEMONIC_PUSHF;
  out.pops_flags = d.insn.mnemonic == ZYDIS_MNEMONIC_POPFQ || d.insn.mnemonic == ZYDIS_MNEMONIC_POPF;
  FillFlow(d, ip, &out);
  if (out.flow == Flow::kNext) {
    if (WritesSp(d)) FillStackMove(d, &out);
    if (out.stack.store_size == 0) FillStackStore(d, &out);
  }
  return out;
}

std::optional<Outcome> Evaluate(const Insn& insn, const X86Regs& regs, Memory& memory) {
  switch (insn.flow) {
    case Flow::kIndJump:
    case Flow::kIndCall:
      if (insn.source.where == Location::kRegister) return Outcome{true, regs.gpr[insn.source.base]};
      return ReadTarget(memory, Address(insn.source, regs, regs.ip + insn.length));
    case Flow::kRet: return ReadTarget(memory, regs.sp());
    default: return DirectOutcome(insn, regs, Taken);
  }
}

}  // namespace brink::decode
