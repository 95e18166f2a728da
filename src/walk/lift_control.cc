// Branches, the stack, no-operations, and what ends a walk.
#include "walk/decoded.h"

namespace brink::walk {
namespace {

int ConditionOf(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_JO: return 0;
    case ZYDIS_MNEMONIC_JNO: return 1;
    case ZYDIS_MNEMONIC_JB: return 2;
    case ZYDIS_MNEMONIC_JNB: return 3;
    case ZYDIS_MNEMONIC_JZ: return 4;
    case ZYDIS_MNEMONIC_JNZ: return 5;
    case ZYDIS_MNEMONIC_JBE: return 6;
    case ZYDIS_MNEMONIC_JNBE: return 7;
    case ZYDIS_MNEMONIC_JS: return 8;
    case ZYDIS_MNEMONIC_JNS: return 9;
    case ZYDIS_MNEMONIC_JP: return 10;
    case ZYDIS_MNEMONIC_JNP: return 11;
    case ZYDIS_MNEMONIC_JL: return 12;
    case ZYDIS_MNEMONIC_JNL: return 13;
    case ZYDIS_MNEMONIC_JLE: return 14;
    case ZYDIS_MNEMONIC_JNLE: return 15;
    default: return -1;
  }
}

bool IsNop(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_ENDBR32:
    case ZYDIS_MNEMONIC_LFENCE:
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SFENCE:
    case ZYDIS_MNEMONIC_SERIALIZE:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
    case ZYDIS_MNEMONIC_CLDEMOTE:
    case ZYDIS_MNEMONIC_PREFETCH:
    case ZYDIS_MNEMONIC_PREFETCHNTA:
    case ZYDIS_MNEMONIC_PREFETCHT0:
    case ZYDIS_MNEMONIC_PREFETCHT1:
    case ZYDIS_MNEMONIC_PREFETCHT2:
    case ZYDIS_MNEMONIC_PREFETCHW:
    case ZYDIS_MNEMONIC_PREFETCHWT1:
    case ZYDIS_MNEMONIC_EMMS:
      return true;
    default:
      return false;
  }
}

// Direct branch: the displacement from the start of the instruction.
bool Direct(const Decoded& d, Insn* out, uint8_t op, uint8_t aux) {
  const auto& target = d.operand(0);
  if (target.type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !target.imm.is_relative) return false;
  const int64_t from_start = target.imm.value.s + d.insn.length;
  if (from_start != static_cast<int32_t>(from_start)) return false;
  out->uop.op = op;
  out->uop.aux = aux;
  out->uop.imm = static_cast<int32_t>(from_start);
  out->target = from_start;
  return true;
}

bool LiftCall(const Decoded& d, Insn* out, UopBuilder& b) {
  if (d.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NEAR) return false;
  if (d.operand(0).type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return Direct(d, out, BRINK_OP_CALL, 0);
  out->uop.op = BRINK_OP_CALLI;
  return d.operand(0).size == 64 && b.Src(0);
}

bool LiftJump(const Decoded& d, Insn* out, UopBuilder& b) {
  out->falls_through = false;
  if (d.operand(0).type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return Direct(d, out, BRINK_OP_JMP, 0);
  if (d.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NEAR) return false;
  out->uop.op = BRINK_OP_JMPI;
  return d.operand(0).size == 64 && b.Src(0);
}

bool LiftPush(const Decoded& d, Insn* out, UopBuilder& b) {
  const auto& src = d.operand(0);
  const unsigned bits = d.insn.operand_width == 16 ? 16 : 64;
  if (src.type == ZYDIS_OPERAND_TYPE_REGISTER && ZydisRegisterGetClass(src.reg.value) == ZYDIS_REGCLASS_SEGMENT) return false;
  out->uop.op = BRINK_OP_PUSH;
  b.Size(bits);
  b.SourceSize(bits);
  if (src.type == ZYDIS_OPERAND_TYPE_MEMORY) return b.Src(0);
  b.Stack(bits == 16 ? -2 : -8, BRINK_UOP_STORE);
  return b.Src(0);
}

bool LiftPop(const Decoded& d, Insn* out, UopBuilder& b) {
  const auto& dst = d.operand(0);
  const unsigned bits = d.insn.operand_width == 16 ? 16 : 64;
  bool high;
  auto reg = dst.type == ZYDIS_OPERAND_TYPE_REGISTER ? GeneralRegister(dst.reg.value, &high) : std::nullopt;
  if (!reg) return false;
  out->uop.op = BRINK_OP_POP;
  out->uop.dst = *reg;
  b.Size(bits);
  b.SourceSize(bits);
  b.Stack(0, BRINK_UOP_LOAD);
  return true;
}

bool LiftRet(const Decoded& d, Insn* out, UopBuilder& b) {
  if (d.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NEAR && d.insn.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE) return false;
  out->falls_through = false;
  out->uop.op = BRINK_OP_RET;
  b.Stack(0, BRINK_UOP_LOAD);
  if (d.visible() > 0) out->uop.imm = static_cast<int32_t>(d.operand(0).imm.value.u & 0xffff);
  return true;
}

bool LiftLoop(const Decoded& d, Insn* out, UopBuilder& b, uint8_t op, uint8_t aux) {
  b.Size(d.insn.address_width);
  return Direct(d, out, op, aux);
}

bool LiftSegmentBase(const Decoded& d, Insn* out, UopBuilder& b, uint8_t reg, bool write) {
  MicroOp& u = out->uop;
  b.Size(d.operand(0).size);
  u.msh = u.sh;
  if (write) {
    u.op = BRINK_OP_WRFS;
    u.dst = reg;
    return b.Src(0);
  }
  u.op = BRINK_OP_MOV;
  u.src = reg;
  return b.Dst(0, false);
}

bool LiftOther(const Decoded& d, Insn* out, UopBuilder& b) {
  MicroOp& u = out->uop;
  switch (d.insn.mnemonic) {
    case ZYDIS_MNEMONIC_CALL: return LiftCall(d, out, b);
    case ZYDIS_MNEMONIC_JMP: return LiftJump(d, out, b);
    case ZYDIS_MNEMONIC_RET: return LiftRet(d, out, b);
    case ZYDIS_MNEMONIC_PUSH: return LiftPush(d, out, b);
    case ZYDIS_MNEMONIC_POP: return LiftPop(d, out, b);
    case ZYDIS_MNEMONIC_LEAVE:
      u.op = BRINK_OP_LEAVE;
      b.Stack(0, BRINK_UOP_LOAD, 5);
      return d.insn.operand_width == 64;
    case ZYDIS_MNEMONIC_ENTER:
      u.op = BRINK_OP_ENTER;
      b.Stack(-8, BRINK_UOP_STORE);
      u.imm = static_cast<int32_t>(d.operand(0).imm.value.u & 0xffff);
      return d.operand(1).imm.value.u == 0 && d.insn.operand_width == 64;
    case ZYDIS_MNEMONIC_PUSHFQ:
      u.op = BRINK_OP_PUSHF;
      b.Stack(-8, BRINK_UOP_STORE);
      return true;
    case ZYDIS_MNEMONIC_POPFQ:
      u.op = BRINK_OP_POPF;
      b.Stack(0, BRINK_UOP_LOAD);
      return true;
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JECXZ: return LiftLoop(d, out, b, BRINK_OP_JRCXZ, 0);
    case ZYDIS_MNEMONIC_LOOP: return LiftLoop(d, out, b, BRINK_OP_LOOP, 0);
    case ZYDIS_MNEMONIC_LOOPE: return LiftLoop(d, out, b, BRINK_OP_LOOP, 1);
    case ZYDIS_MNEMONIC_LOOPNE: return LiftLoop(d, out, b, BRINK_OP_LOOP, 2);
    case ZYDIS_MNEMONIC_RDFSBASE: return LiftSegmentBase(d, out, b, BRINK_WREG_FS, false);
    case ZYDIS_MNEMONIC_RDGSBASE: return LiftSegmentBase(d, out, b, BRINK_WREG_GS, false);
    case ZYDIS_MNEMONIC_WRFSBASE: return LiftSegmentBase(d, out, b, BRINK_WREG_FS, true);
    case ZYDIS_MNEMONIC_WRGSBASE: return LiftSegmentBase(d, out, b, BRINK_WREG_GS, true);
    case ZYDIS_MNEMONIC_SYSCALL:
      u.op = BRINK_OP_STOP;
      u.aux = BRINK_STOP_SYSCALL;
      return true;
    default: return false;
  }
}

bool IsBranch(const Decoded& d) {
  return d.insn.meta.category == ZYDIS_CATEGORY_CALL || d.insn.meta.category == ZYDIS_CATEGORY_RET ||
         d.insn.meta.category == ZYDIS_CATEGORY_COND_BR || d.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

}  // namespace

bool LiftControl(const Decoded& decoded, Insn* out) {
  const MicroOp before = out->uop;
  // Intel ignores an operand-size prefix on branches, AMD does not.
  if (IsBranch(decoded) && decoded.insn.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) return false;
  if (IsNop(decoded.insn.mnemonic)) {
    out->uop.op = BRINK_OP_NOP;
    return true;
  }
  const int condition = ConditionOf(decoded.insn.mnemonic);
  UopBuilder builder(decoded, out);
  if (condition >= 0 ? Direct(decoded, out, BRINK_OP_JCC, static_cast<uint8_t>(condition)) : LiftOther(decoded, out, builder)) return true;
  out->uop = before;
  out->target = Insn::kNoTarget;
  return false;
}

}  // namespace brink::walk
