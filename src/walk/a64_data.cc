// Data processing on general registers.
#include "walk/a64_lift.h"

namespace brink::walk {
namespace {

using a64::Form;

bool AddSubImmediate(A64Word& w) {
  const bool flags = w.bit(29);
  w.Op(w.bit(30) ? BRINK_A64_SUB : BRINK_A64_ADD);
  w.SizeOf64();
  w.u.src2 = A64Word::Sp(w.bits(9, 5));
  w.u.src = BRINK_WREG_IMM;
  w.u.imm = static_cast<int32_t>(w.bits(21, 10) << (w.bit(22) ? 12 : 0));
  w.u.dst = flags ? w.rd() : A64Word::Sp(w.bits(4, 0));
  w.u.aux = flags ? BRINK_A64_FLAGS : 0;
  return true;
}

constexpr uint8_t kLogical[] = {BRINK_A64_AND, BRINK_A64_OR, BRINK_A64_XOR, BRINK_A64_AND};

bool LogicalImmediate(A64Word& w) {
  uint64_t value;
  if (!a64::LogicalImmediate(w.bit(22), w.bits(21, 16), w.bits(15, 10), w.bit(31) ? 64 : 32, &value)) return false;
  const uint32_t opc = w.bits(30, 29);
  w.Op(kLogical[opc]);
  w.SizeOf64();
  w.u.src2 = w.rn();
  w.u.src = BRINK_WREG_IMM;
  w.u.dst = opc == 3 ? w.rd() : A64Word::Sp(w.bits(4, 0));
  w.u.aux = opc == 3 ? BRINK_A64_FLAGS : 0;
  w.u.imm = static_cast<int32_t>(value);
  if (static_cast<uint64_t>(int64_t{w.u.imm}) != value) {
    w.Constant(value);
    w.u.flags = BRINK_A64_WIDE;
  }
  return true;
}

bool MoveWide(A64Word& w) {
  const uint32_t opc = w.bits(30, 29), shift = 16 * w.bits(22, 21);
  if (opc == 1 || (!w.bit(31) && shift >= 32)) return false;
  w.u.dst = w.rd();
  w.SizeOf64();
  if (opc == 3) {
    w.Op(BRINK_A64_KEEP);
    w.u.aux = static_cast<uint8_t>(shift);
    w.u.imm = static_cast<int32_t>(w.bits(20, 5));
    return true;
  }
  uint64_t value = uint64_t{w.bits(20, 5)} << shift;
  if (opc == 0) value = ~value;
  if (!w.bit(31)) value &= 0xffffffff;
  w.Op(BRINK_A64_CONST);
  w.Constant(value);
  return true;
}

bool Bitfield(A64Word& w) {
  const uint32_t opc = w.bits(30, 29), immr = w.bits(21, 16), imms = w.bits(15, 10);
  if (opc == 3 || w.bit(22) != w.bit(31) || (!w.bit(31) && (immr >= 32 || imms >= 32))) return false;
  w.Op(BRINK_A64_FIELD);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src = w.rn();
  w.u.scale = static_cast<uint8_t>(immr);
  w.u.index = static_cast<uint8_t>(imms);
  w.u.aux = static_cast<uint8_t>(opc);
  return true;
}

bool Extract(A64Word& w) {
  if (w.bit(22) != w.bit(31) || (!w.bit(31) && w.bit(15))) return false;
  w.Op(BRINK_A64_EXTRACT);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  w.u.index = static_cast<uint8_t>(w.bits(15, 10));
  return true;
}

bool PcRelative(A64Word& w) {
  w.Op(BRINK_A64_ADDRESS);
  w.u.dst = w.rd();
  w.u.aux = static_cast<uint8_t>(w.bit(31));
  w.u.imm = static_cast<int32_t>(static_cast<uint32_t>(w.imm(23, 5)) << 2 | w.bits(30, 29));
  return true;
}

}  // namespace

bool LiftA64Immediate(A64Word& w) {
  switch (w.form) {
    case Form::kPcRelative: return PcRelative(w);
    case Form::kAddSubImmediate: return AddSubImmediate(w);
    case Form::kLogicalImmediate: return LogicalImmediate(w);
    case Form::kMoveWide: return MoveWide(w);
    case Form::kBitfield: return Bitfield(w);
    case Form::kExtract: return Extract(w);
    case Form::kAddTag:
      w.u.dst = A64Word::Sp(w.bits(4, 0));
      return w.Clobber(BRINK_A64_LOSE_REG);
    case Form::kMinMaxImmediate: return w.ClobberReg(w.bits(4, 0), w.bit(31));
    default: return false;
  }
}

namespace {

// The last operand is shifted: kind and count.
void Shifted(A64Word& w, uint32_t kind, uint32_t count, uint8_t msh) {
  w.u.flags = BRINK_A64_CHANGED;
  w.u.scale = static_cast<uint8_t>(kind);
  w.u.index = static_cast<uint8_t>(count);
  w.u.msh = msh;
}

bool LogicalShifted(A64Word& w) {
  const uint32_t opc = w.bits(30, 29), count = w.bits(15, 10);
  if (!w.bit(31) && count >= 32) return false;
  w.Op(kLogical[opc]);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  w.u.aux = static_cast<uint8_t>((opc == 3 ? BRINK_A64_FLAGS : 0) | (w.bit(21) ? BRINK_A64_INVERT : 0));
  if (count || w.bit(21)) Shifted(w, w.bits(23, 22), count, w.u.sh);
  return true;
}

bool AddSubShifted(A64Word& w) {
  const uint32_t kind = w.bits(23, 22), count = w.bits(15, 10);
  if (kind == 3 || (!w.bit(31) && count >= 32)) return false;
  w.Op(w.bit(30) ? BRINK_A64_SUB : BRINK_A64_ADD);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  w.u.aux = w.bit(29) ? BRINK_A64_FLAGS : 0;
  if (count) Shifted(w, kind, count, w.u.sh);
  return true;
}

bool AddSubExtended(A64Word& w) {
  const uint32_t option = w.bits(15, 13), count = w.bits(12, 10);
  if (count > 4) return false;
  const bool flags = w.bit(29);
  w.Op(w.bit(30) ? BRINK_A64_SUB : BRINK_A64_ADD);
  w.SizeOf64();
  w.u.dst = flags ? w.rd() : A64Word::Sp(w.bits(4, 0));
  w.u.src2 = A64Word::Sp(w.bits(9, 5));
  w.u.src = w.rm();
  w.u.aux = static_cast<uint8_t>((flags ? BRINK_A64_FLAGS : 0) | (option & 4 ? BRINK_A64_SIGNED : 0));
  Shifted(w, BRINK_A64_LSL, count, static_cast<uint8_t>(64 - (8u << (option & 3))));
  return true;
}

bool AddSubCarry(A64Word& w) {
  w.Op(BRINK_A64_CARRY);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  w.u.scale = static_cast<uint8_t>(w.bit(30));
  w.u.aux = w.bit(29) ? BRINK_A64_FLAGS : 0;
  return true;
}

bool CondCompare(A64Word& w, bool immediate) {
  w.Op(BRINK_A64_COMPARE);
  w.SizeOf64();
  w.u.src2 = w.rn();
  w.u.src = immediate ? uint8_t{BRINK_WREG_IMM} : w.rm();
  w.u.imm = immediate ? static_cast<int32_t>(w.bits(20, 16)) : 0;
  w.u.aux = static_cast<uint8_t>(w.bits(15, 12));
  w.u.scale = static_cast<uint8_t>(w.bit(30));
  w.u.index = static_cast<uint8_t>(w.bits(3, 0));
  return true;
}

bool CondSelect(A64Word& w) {
  w.Op(BRINK_A64_SELECT);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  w.u.aux = static_cast<uint8_t>(w.bits(15, 12));
  w.u.scale = static_cast<uint8_t>(2 * w.bit(30) + w.bit(10));
  return true;
}

bool Pac(A64Word& w, uint32_t opcode) {
  if (opcode > 17 || (opcode >= 8 && w.bits(9, 5) != 31)) return false;
  return w.Pac(w.rd(), opcode >= 16 ? BRINK_A64_PAC_STRIP : opcode & 4 ? BRINK_A64_PAC_CHECK : BRINK_A64_PAC_SIGN);
}

bool OneSource(A64Word& w) {
  const uint32_t opcode = w.bits(15, 10);
  const bool wide = w.bit(31);
  if (w.bits(20, 16) == 1) return wide && Pac(w, opcode);
  if (w.bits(20, 16) != 0) return false;
  if (opcode >= 6 && opcode <= 8) return w.ClobberReg(w.bits(4, 0), wide);  // ctz, cnt, abs
  if (opcode > 5 || (opcode == 3 && !wide)) return false;
  static constexpr uint8_t kBits[] = {BRINK_A64_RBIT, BRINK_A64_REV16, BRINK_A64_REV32, BRINK_A64_REV, BRINK_A64_CLZ, BRINK_A64_CLS};
  w.Op(BRINK_A64_BITS);
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src = w.rn();
  w.u.aux = opcode == 2 && !wide ? uint8_t{BRINK_A64_REV} : kBits[opcode];
  return true;
}

bool TwoSources(A64Word& w) {
  const uint32_t opcode = w.bits(15, 10);
  const bool wide = w.bit(31);
  if (w.bit(29)) {  // subps
    if (!wide || opcode != 0) return false;
    w.u.dst = w.rd();
    return w.Clobber(BRINK_A64_LOSE_REG | BRINK_A64_LOSE_FLAGS);
  }
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  if (opcode == 2 || opcode == 3) {
    w.Op(BRINK_A64_DIV);
    w.u.aux = opcode == 2;
    return true;
  }
  if (opcode >= 8 && opcode <= 11) {
    w.Op(BRINK_A64_SHIFT);
    w.u.aux = static_cast<uint8_t>(opcode - 8);
    return true;
  }
  if (opcode >= 16 && opcode <= 23) {
    if ((opcode & 3) == 3 ? !wide : wide) return false;
    w.Op(BRINK_A64_CRC);
    w.u.msh = static_cast<uint8_t>(64 - (8u << (opcode & 3)));
    w.u.aux = opcode >= 20;
    return true;
  }
  if (opcode >= 24 && opcode <= 27) return w.ClobberReg(w.bits(4, 0), wide);  // smax and its kin
  if (!wide) return false;
  if (opcode == 4) {  // irg
    w.u.dst = A64Word::Sp(w.bits(4, 0));
    return w.Clobber(BRINK_A64_LOSE_REG);
  }
  return (opcode == 0 || opcode == 5 || opcode == 12) && w.ClobberReg(w.bits(4, 0), true);  // subp, gmi, pacga
}

bool ThreeSources(A64Word& w) {
  const uint32_t kind = w.bits(23, 21);
  if (kind != 0 && !w.bit(31)) return false;
  w.SizeOf64();
  w.u.dst = w.rd();
  w.u.src2 = w.rn();
  w.u.src = w.rm();
  if (kind == 2 || kind == 6) {
    if (w.bit(15)) return false;
    w.Op(BRINK_A64_HIGH);
    w.u.aux = kind == 6;
    return true;
  }
  if (kind != 0 && kind != 1 && kind != 5) return false;
  w.Op(BRINK_A64_MADD);
  w.u.base = A64Word::Src(w.bits(14, 10));
  w.u.scale = static_cast<uint8_t>(w.bit(15));
  w.u.aux = kind == 0 ? 0 : kind == 1 ? 1 : 2;
  return true;
}

bool Flag(A64Word& w, uint8_t what) {
  w.Op(BRINK_A64_FLAG);
  w.u.aux = what;
  w.u.src = w.rn();
  return true;
}

}  // namespace

bool LiftA64Register(A64Word& w) {
  switch (w.form) {
    case Form::kLogicalShifted: return LogicalShifted(w);
    case Form::kAddSubShifted: return AddSubShifted(w);
    case Form::kAddSubExtended: return AddSubExtended(w);
    case Form::kAddSubCarry: return AddSubCarry(w);
    case Form::kCondCompareRegister: return CondCompare(w, false);
    case Form::kCondCompareImmediate: return CondCompare(w, true);
    case Form::kCondSelect: return CondSelect(w);
    case Form::kOneSource: return OneSource(w);
    case Form::kTwoSources: return TwoSources(w);
    case Form::kThreeSources: return ThreeSources(w);
    case Form::kRotateIntoFlags:
      w.u.imm = static_cast<int32_t>(w.bits(20, 15));
      w.u.index = static_cast<uint8_t>(w.bits(3, 0));
      return Flag(w, BRINK_A64_FLAG_RMIF);
    case Form::kEvaluateFlags:
      w.Size(w.bit(14) ? 16 : 8);
      return Flag(w, BRINK_A64_FLAG_SETF);
    default: return false;
  }
}

}  // namespace brink::walk
