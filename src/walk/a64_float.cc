// Scalar floating point: moves are followed, values are not.
#include "walk/a64_lift.h"

namespace brink::walk {
namespace {

using a64::Form;

// Bytes of a type field; 0: reserved.
constexpr uint32_t kTypeBytes[] = {4, 8, 0, 2};

bool Move(A64Word& w, uint32_t bytes, bool to_general, bool upper) {
  const uint8_t log = bytes == 8 ? 3 : bytes == 4 ? 2 : 1;
  if (to_general) {
    w.Op(BRINK_AV_GET);
    w.u.dst = w.rd();
    w.u.src = static_cast<uint8_t>(w.bits(9, 5));
    w.u.scale = log;
    w.u.index = upper;
    w.SizeOf64();
    return true;
  }
  w.Op(upper ? BRINK_AV_PUT_REG : BRINK_AV_MOVE_REG);
  w.u.dst = static_cast<uint8_t>(w.bits(4, 0));
  w.u.src = w.rn();
  w.u.msh = static_cast<uint8_t>(bytes);
  w.u.scale = log;
  w.u.index = upper;
  return true;
}

bool Integer(A64Word& w) {
  const uint32_t type = w.bits(23, 22), mode = w.bits(20, 19), opcode = w.bits(18, 16);
  const bool wide = w.bit(31);
  if (mode == 1 && type == 2 && wide && (opcode == 6 || opcode == 7)) return Move(w, 8, opcode == 6, true);
  if (type == 1 && mode == 3 && opcode == 6 && !wide) {  // fjcvtzs
    w.u.dst = w.rd();
    w.u.sh = 32;
    return w.Clobber(BRINK_A64_LOSE_REG | BRINK_A64_LOSE_FLAGS);
  }
  if (type == 2) return false;
  switch (opcode) {
    case 0:
    case 1: return w.ClobberReg(w.bits(4, 0), wide);
    case 2:
    case 3: return mode == 0 && w.ClobberVector(w.bits(4, 0));
    case 4:
    case 5: return mode == 0 && w.ClobberReg(w.bits(4, 0), wide);
    default:
      if (mode != 0 || (type != 3 && wide != (type == 1))) return false;
      return Move(w, kTypeBytes[type], opcode == 6, false);
  }
}

bool Fixed(A64Word& w) {
  const uint32_t mode = w.bits(20, 19), opcode = w.bits(18, 16);
  if (w.bits(23, 22) == 2 || (!w.bit(31) && !w.bit(15))) return false;
  if (mode == 0 && (opcode == 2 || opcode == 3)) return w.ClobberVector(w.bits(4, 0));
  return mode == 3 && opcode <= 1 && w.ClobberReg(w.bits(4, 0), w.bit(31));
}

bool OneSource(A64Word& w) {
  const uint32_t type = w.bits(23, 22), opcode = w.bits(20, 15), bytes = kTypeBytes[type];
  if (type == 1 && opcode == 6) return w.ClobberVector(w.bits(4, 0));  // bfcvt
  if (!bytes) return false;
  if (opcode == 0) {
    w.Op(BRINK_AV_MOVE);
    w.u.dst = static_cast<uint8_t>(w.bits(4, 0));
    w.u.src = static_cast<uint8_t>(w.bits(9, 5));
    w.u.msh = static_cast<uint8_t>(bytes);
    return true;
  }
  // fabs, fneg, fsqrt; conversions between types; roundings.
  const bool conversion = opcode >= 4 && opcode <= 7 && opcode != 6 && opcode - 4 != type;
  const bool rounding = (opcode >= 8 && opcode <= 15 && opcode != 13) || (opcode >= 16 && opcode <= 19 && type != 3);
  return (opcode <= 3 || conversion || rounding) && w.ClobberVector(w.bits(4, 0));
}

bool Immediate(A64Word& w) {
  const uint32_t type = w.bits(23, 22), bytes = kTypeBytes[type];
  if (!bytes) return false;
  if (bytes == 2) return w.ClobberVector(w.bits(4, 0));
  uint64_t value;
  if (!a64::VectorImmediate(15, type, w.bits(20, 13), &value)) return false;
  w.Op(BRINK_AV_CONST);
  w.Constant(value);
  w.u.dst = static_cast<uint8_t>(w.bits(4, 0));
  w.u.sh = static_cast<uint8_t>(bytes);
  return true;
}

}  // namespace

bool LiftA64Float(A64Word& w) {
  w.u.index = 0;
  const bool typed = kTypeBytes[w.bits(23, 22)] != 0;
  switch (w.form) {
    case Form::kFpInteger: return Integer(w);
    case Form::kFpFixed: return Fixed(w);
    case Form::kFpOneSource: return OneSource(w);
    case Form::kFpImmediate: return Immediate(w);
    case Form::kFpCompare: return typed && w.bits(15, 14) == 0 && w.bits(2, 0) == 0 && w.Clobber(BRINK_A64_LOSE_FLAGS);
    case Form::kFpCondCompare: return typed && w.Clobber(BRINK_A64_LOSE_FLAGS);
    case Form::kFpTwoSources: return typed && w.bits(15, 12) <= 8 && w.ClobberVector(w.bits(4, 0));
    case Form::kFpSelect:
    case Form::kFpThreeSources: return typed && w.ClobberVector(w.bits(4, 0));
    default: return false;
  }
}

}  // namespace brink::walk
