// Branches, hints, barriers, system registers.
#include <bit>

#include "walk/a64_lift.h"

namespace brink::walk {
namespace {

using a64::Form;

// Direct branch: the displacement from the instruction.
bool Direct(A64Word& w, uint8_t op, int32_t words) {
  w.Op(op);
  w.u.imm = words * 4;
  w.insn.target = w.u.imm;
  return true;
}

bool BranchRegister(A64Word& w) {
  static constexpr uint8_t kOps[] = {BRINK_A64_BR, BRINK_A64_BLR, BRINK_A64_RET};
  const uint32_t opc = w.bits(22, 21);
  if (opc > 2) return false;
  w.Op(kOps[opc]);
  w.u.src = w.rn();
  w.insn.falls_through = opc == 1;
  return true;
}

bool BranchRegisterPac(A64Word& w) {
  const uint32_t opc = w.bits(22, 21);
  if (!w.bit(24)) {
    // Without a modifier register that field is all ones; a return takes x30.
    if (w.bits(4, 0) != 31 || opc > 2 || (opc == 2 && w.bits(9, 5) != 31)) return false;
  } else if (opc > 1) {
    return false;
  }
  w.Op(opc == 0 ? BRINK_A64_BR : opc == 1 ? BRINK_A64_BLR : BRINK_A64_RET);
  w.u.src = opc == 2 ? A64Word::Src(30) : w.rn();
  w.u.aux = w.options.address_bits;
  w.insn.falls_through = opc == 1;
  return true;
}

bool PacHint(A64Word& w, uint32_t reg, uint8_t what) { return w.Pac(A64Word::Dst(reg), what); }

bool Hint(A64Word& w) {
  switch (w.bits(11, 5)) {
    case 7: return PacHint(w, 30, BRINK_A64_PAC_STRIP);
    case 8:
    case 10: return PacHint(w, 17, BRINK_A64_PAC_SIGN);
    case 12:
    case 14: return PacHint(w, 17, BRINK_A64_PAC_CHECK);
    case 24:
    case 25:
    case 26:
    case 27: return PacHint(w, 30, BRINK_A64_PAC_SIGN);
    case 28:
    case 29:
    case 30:
    case 31: return PacHint(w, 30, BRINK_A64_PAC_CHECK);
    case 39:  // pacm: changes what the next instruction computes
      return false;
    case 40: return w.ClobberReg(16, true);  // chkfeat
    default: w.Op(BRINK_A64_NOP); return true;
  }
}

bool Barrier(A64Word& w) {
  const uint32_t op2 = w.bits(7, 5), crm = w.bits(11, 8);
  w.Op(op2 == 2 ? BRINK_A64_OPEN : BRINK_A64_NOP);
  switch (op2) {
    case 1: return (crm & 3) == 2;
    case 2:
    case 4:
    case 5:
    case 6: return true;
    case 7: return crm == 0;
    default: return false;
  }
}

bool Pstate(A64Word& w) {
  const uint32_t op1 = w.bits(18, 16), op2 = w.bits(7, 5), crm = w.bits(11, 8);
  if (op1 == 0 && crm == 0 && op2 == 0) {
    w.Op(BRINK_A64_FLAG);
    w.u.aux = BRINK_A64_FLAG_CFINV;
    return true;
  }
  if (op1 == 0 && crm == 0 && (op2 == 1 || op2 == 2)) return w.Clobber(BRINK_A64_LOSE_FLAGS);
  if (op1 != 3) return false;
  if (op2 == 3 && crm >= 2 && crm <= 7) return w.Stop(BRINK_STOP_SVE);  // smstart, smstop
  w.Op(BRINK_A64_NOP);
  return crm <= 1 && (op2 == 1 || op2 == 2 || op2 == 4);  // ssbs, dit, tco
}

// `dc zva`: how much of memory becomes 0 only the machine knows.
bool Zero(A64Word& w) {
  if (w.options.zeroes < BRINK_WALK_CODE_LINE) return false;
  w.Op(BRINK_A64_ZERO);
  w.u.flags = BRINK_UOP_MEM;
  w.u.base = A64Word::Src(w.bits(4, 0));
  w.u.aux = static_cast<uint8_t>(std::countr_zero(w.options.zeroes));
  return true;
}

// Maintenance by address that user code may do.
bool Sys(A64Word& w) {
  const uint32_t op1 = w.bits(18, 16), crn = w.bits(15, 12), crm = w.bits(11, 8), op2 = w.bits(7, 5);
  if (op1 != 3 || crn != 7 || op2 != 1) return false;
  if (crm == 4) return Zero(w);
  w.Op(BRINK_A64_NOP);
  return crm == 5 || (crm >= 10 && crm <= 14);
}

// System registers by op0, op1, CRn, CRm, op2 as they lie in the word.
constexpr uint32_t SystemRegister(uint32_t op0, uint32_t op1, uint32_t crn, uint32_t crm, uint32_t op2) {
  return (op0 & 1) << 14 | op1 << 11 | crn << 7 | crm << 3 | op2;
}
constexpr uint32_t kNzcv = SystemRegister(3, 3, 4, 2, 0), kFpcr = SystemRegister(3, 3, 4, 4, 0), kFpsr = SystemRegister(3, 3, 4, 4, 1),
                   kTpidr = SystemRegister(3, 3, 13, 0, 2), kDit = SystemRegister(3, 3, 4, 2, 5), kSsbs = SystemRegister(3, 3, 4, 2, 6),
                   kTco = SystemRegister(3, 3, 4, 2, 7), kDczid = SystemRegister(3, 3, 0, 0, 7), kRndr = SystemRegister(3, 3, 2, 4, 0), kRndrrs = SystemRegister(3, 3, 2, 4, 1);

bool Copy(A64Word& w, uint8_t dst, uint8_t src) {
  w.Op(BRINK_A64_OR);
  w.u.dst = dst;
  w.u.src2 = BRINK_WREG_ZERO;
  w.u.src = src;
  return true;
}

bool Mrs(A64Word& w) {
  const uint32_t reg = w.bits(19, 5), op1 = w.bits(18, 16);
  if (reg == kTpidr) return Copy(w, w.rd(), BRINK_WREG_FS);
  if (reg == kNzcv) {
    w.Op(BRINK_A64_FLAG);
    w.u.aux = BRINK_A64_FLAG_READ;
    w.u.dst = w.rd();
    return true;
  }
  if (reg == kDczid && w.options.zeroes) {
    w.Op(BRINK_A64_CONST);
    w.Constant(static_cast<uint64_t>(std::countr_zero(w.options.zeroes) - 2));
    w.u.dst = w.rd();
    return true;
  }
  if (reg == kRndr || reg == kRndrrs) {
    w.u.dst = w.rd();
    return w.Clobber(BRINK_A64_LOSE_REG | BRINK_A64_LOSE_FLAGS);
  }
  // Counters and the like, and identification, which the kernel answers: whatever comes.
  const bool identification = w.bit(19) && op1 == 0 && w.bits(15, 12) == 0;
  return ((w.bit(19) && op1 == 3) || identification) && w.ClobberReg(w.bits(4, 0), true);
}

bool Msr(A64Word& w) {
  const uint32_t reg = w.bits(19, 5);
  const uint8_t value = A64Word::Src(w.bits(4, 0));
  if (reg == kTpidr) return Copy(w, BRINK_WREG_FS, value);
  if (reg == kNzcv) {
    w.Op(BRINK_A64_FLAG);
    w.u.aux = BRINK_A64_FLAG_WRITE;
    w.u.src = value;
    return true;
  }
  w.Op(BRINK_A64_NOP);
  return reg == kFpcr || reg == kFpsr || reg == kDit || reg == kSsbs || reg == kTco;
}

}  // namespace

bool LiftA64Control(A64Word& w) {
  switch (w.form) {
    case Form::kCondBranch:
      w.u.aux = static_cast<uint8_t>(w.bits(3, 0));
      return Direct(w, BRINK_A64_BCOND, w.imm(23, 5));
    case Form::kBranchImmediate:
      w.insn.falls_through = w.bit(31);
      return Direct(w, w.bit(31) ? BRINK_A64_BL : BRINK_A64_B, w.imm(25, 0));
    case Form::kCompareBranch:
      w.SizeOf64();
      w.u.src = A64Word::Src(w.bits(4, 0));
      w.u.aux = static_cast<uint8_t>(w.bit(24));
      return Direct(w, BRINK_A64_CBZ, w.imm(23, 5));
    case Form::kTestBranch:
      w.u.src = A64Word::Src(w.bits(4, 0));
      w.u.index = static_cast<uint8_t>(w.bit(31) << 5 | w.bits(23, 19));
      w.u.aux = static_cast<uint8_t>(w.bit(24));
      return Direct(w, BRINK_A64_TBZ, w.imm(18, 5));
    case Form::kBranchRegister: return BranchRegister(w);
    case Form::kBranchRegisterPac: return BranchRegisterPac(w);
    case Form::kException: return w.bits(23, 21) == 0 && w.bits(4, 0) == 1 && w.Stop(BRINK_STOP_SYSCALL);
    case Form::kHint: return Hint(w);
    case Form::kBarrier: return Barrier(w);
    case Form::kWaitTimeout: w.Op(BRINK_A64_NOP); return true;
    case Form::kPstate: return Pstate(w);
    case Form::kSys: return Sys(w);
    case Form::kMrs: return Mrs(w);
    case Form::kMsr: return Msr(w);
    default: return false;
  }
}

namespace {

constexpr uint32_t kBreakMask = 0xffe0001f, kBreak = 0xd4200000;

}  // namespace

std::optional<Insn> LiftA64(uint32_t word, const LiftOptions& options) {
  if ((word & kBreakMask) == kBreak) return std::nullopt;
  Insn insn;
  const auto blank = [&] {
    insn = Insn{};
    insn.uop.base = insn.uop.index = BRINK_WREG_ZERO;
    insn.uop.len = 4;
  };
  blank();
  insn.falls_through = true;
  A64Word w(word, &insn, options);
  const bool lifted = w.form == Form::kSve          ? w.Stop(BRINK_STOP_SVE)
                      : w.form <= Form::kExtract    ? LiftA64Immediate(w)
                      : w.form <= Form::kTestBranch ? LiftA64Control(w)
                      : w.form < Form::kLogicalShifted ? LiftA64Memory(w)
                      : w.form <= Form::kThreeSources  ? LiftA64Register(w)
                      : w.form <= Form::kFpThreeSources ? LiftA64Float(w)
                                                        : LiftA64Vector(w);
  if (!lifted) {
    blank();
    w.Stop(BRINK_STOP_UNSUPPORTED);
  }
  if (insn.uop.op == BRINK_A64_STOP) insn.falls_through = false;
  return insn;
}

}  // namespace brink::walk
