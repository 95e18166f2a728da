// Vectors: what string functions use is followed, the rest by effect.
#include "walk/a64_lift.h"

namespace brink::walk {
namespace {

using a64::Form;

// Fields that most vector encodings share.
struct Fields {
  explicit Fields(const A64Word& w)
      : q(w.bit(30)), u(w.bit(29)), size(w.bits(23, 22)), rd(w.bits(4, 0)), rn(w.bits(9, 5)), rm(w.bits(20, 16)) {}
  bool q, u;
  uint32_t size, rd, rn, rm;
  bool whole() const { return size != 3 || q; }  // no vector of one 64-bit element
};

bool Vector(A64Word& w, const Fields& f, uint8_t op, uint8_t aux, uint32_t a, uint32_t b, uint32_t scale) {
  w.Op(op);
  w.u.aux = aux;
  w.u.dst = static_cast<uint8_t>(f.rd);
  w.u.src2 = static_cast<uint8_t>(a);
  w.u.src = static_cast<uint8_t>(b);
  w.u.scale = static_cast<uint8_t>(scale);
  w.u.sh = f.q ? 16 : 8;
  return true;
}

bool Copy(A64Word& w) {
  const Fields f(w);
  const uint32_t imm5 = w.bits(20, 16), imm4 = w.bits(14, 11);
  if (!(imm5 & 15)) return false;
  uint32_t log = 0;
  while (!(imm5 >> log & 1)) ++log;
  const auto element = static_cast<uint8_t>(imm5 >> (log + 1));
  if (f.u) {  // ins from an element
    w.u.index = element;
    return f.q && Vector(w, f, BRINK_AV_PUT, static_cast<uint8_t>(imm4 >> log), 0, f.rn, log);
  }
  switch (imm4) {
    case 0:
      w.u.index = element;
      return (log < 3 || f.q) && Vector(w, f, BRINK_AV_REPEAT, 0, 0, f.rn, log);
    case 1: return (log < 3 || f.q) && Vector(w, f, BRINK_AV_REPEAT_REG, 0, 0, w.rn(), log);
    case 3:
      w.u.index = element;
      return f.q && Vector(w, f, BRINK_AV_PUT_REG, 0, 0, w.rn(), log);
    case 5:
    case 7: {
      const bool sign = imm4 == 5;
      if (sign ? log > (f.q ? 2u : 1u) : f.q != (log == 3)) return false;
      w.u.index = element;
      Vector(w, f, BRINK_AV_GET, sign, 0, f.rn, log);
      w.u.dst = w.rd();
      w.u.sh = f.q ? 0 : 32;
      return true;
    }
    default: return false;
  }
}

constexpr uint8_t kBitwise[2][4] = {{BRINK_AL_AND, BRINK_AL_BIC, BRINK_AL_ORR, BRINK_AL_ORN},
                                    {BRINK_AL_EOR, BRINK_AL_BSL, BRINK_AL_BIT, BRINK_AL_BIF}};

// Operations of three equal vectors that are followed, by opcode and U: micro-op, kind, and whether 64-bit elements exist.
struct SameRow {
  uint8_t opcode, u, op, lane;
  bool wide;
};
constexpr SameRow kSame[] = {
    {0x10, 0, BRINK_AV_LANE, BRINK_AL_ADD, true},       {0x10, 1, BRINK_AV_LANE, BRINK_AL_SUB, true},
    {0x11, 0, BRINK_AV_LANE, BRINK_AL_TST, true},       {0x11, 1, BRINK_AV_LANE, BRINK_AL_EQ, true},
    {0x06, 0, BRINK_AV_LANE, BRINK_AL_GT, true},        {0x06, 1, BRINK_AV_LANE, BRINK_AL_HI, true},
    {0x07, 0, BRINK_AV_LANE, BRINK_AL_GE, true},        {0x07, 1, BRINK_AV_LANE, BRINK_AL_HS, true},
    {0x0c, 0, BRINK_AV_LANE, BRINK_AL_SMAX, false},     {0x0c, 1, BRINK_AV_LANE, BRINK_AL_UMAX, false},
    {0x0d, 0, BRINK_AV_LANE, BRINK_AL_SMIN, false},     {0x0d, 1, BRINK_AV_LANE, BRINK_AL_UMIN, false},
    {0x14, 0, BRINK_AV_PAIRWISE, BRINK_AL_SMAX, false}, {0x14, 1, BRINK_AV_PAIRWISE, BRINK_AL_UMAX, false},
    {0x15, 0, BRINK_AV_PAIRWISE, BRINK_AL_SMIN, false}, {0x15, 1, BRINK_AV_PAIRWISE, BRINK_AL_UMIN, false},
    {0x17, 0, BRINK_AV_PAIRWISE, BRINK_AL_ADD, true},
};

// Is the operation on three equal vectors allocated at all?
bool SameExists(const Fields& f, uint32_t opcode) {
  if (opcode >= 0x18) {
    // A bit for each of the eight codes, by U and the upper bit of size.
    constexpr uint8_t kAllocated[4] = {0xff, 0xe7, 0xff, 0x77};
    if (!(kAllocated[(f.u ? 2 : 0) + (f.size >> 1)] >> (opcode - 0x18) & 1)) return false;
    const bool widens = opcode == (f.u ? 0x19u : 0x1du);
    return !(f.size & 1) || (f.q && !widens);
  }
  switch (opcode) {
    case 0x01: case 0x05: case 0x08: case 0x09: case 0x0a: case 0x0b: return f.whole();
    case 0x13: return f.u ? f.size == 0 : f.size != 3;
    case 0x16: return f.size == 1 || f.size == 2;
    case 0x00: case 0x02: case 0x04: case 0x0e: case 0x0f: case 0x12: return f.size != 3;
    default: return false;
  }
}

bool Same(A64Word& w) {
  const Fields f(w);
  const uint32_t opcode = w.bits(15, 11);
  if (opcode == 3) return Vector(w, f, BRINK_AV_LANE, kBitwise[f.u][f.size], f.rn, f.rm, 0);
  for (const SameRow& row : kSame) {
    if (row.opcode != opcode || row.u != f.u) continue;
    return (row.wide ? f.whole() : f.size != 3) && Vector(w, f, row.op, row.lane, f.rn, f.rm, f.size);
  }
  return SameExists(f, opcode) && w.ClobberVector(f.rd);
}

// Of one vector, with zero as the other operand.
bool WithZero(A64Word& w, const Fields& f, uint8_t lane, uint8_t zero) {
  w.u.index = zero;
  return f.whole() && Vector(w, f, BRINK_AV_LANE, lane, f.rn, f.rn, f.size);
}

// Is the operation on one vector allocated? By opcode: a bit for each size, 3 only of 16 bytes.
bool MiscExists(const Fields& f, uint32_t opcode) {
  constexpr uint8_t kPlain[32] = {0x7, 0x1, 0x7, 0xf, 0x7, 0x1, 0x7, 0xf, 0xf, 0xf, 0xf, 0xf, 0xc, 0xc, 0xc, 0xc,
                                  0,   0,   0x7, 0,   0x7, 0,   0x3, 0x3, 0xf, 0xf, 0xf, 0xf, 0xf, 0xf, 0,   0};
  constexpr uint8_t kU[32] = {0x3, 0,   0x7, 0xf, 0x7, 0x3, 0x7, 0xf, 0xf, 0xf, 0,   0xf, 0xc, 0xc, 0,   0xc,
                              0,   0,   0x7, 0x7, 0x7, 0,   0x2, 0,   0xf, 0xf, 0xf, 0xf, 0xf, 0xf, 0,   0xc};
  if (!((f.u ? kU : kPlain)[opcode] >> f.size & 1)) return false;
  const bool narrows = opcode == 0x12 || opcode == 0x13 || opcode == 0x14 || opcode == 0x16 || opcode == 0x17;
  // Of floating point the low bit of size tells the element.
  if (opcode >= 0x18 || (opcode >= 0x0c && opcode <= 0x0f)) return !(f.size & 1) || f.q;
  return narrows || f.whole();
}

bool Misc(A64Word& w) {
  const Fields f(w);
  const uint32_t opcode = w.bits(16, 12);
  switch (opcode) {
    case 0x00:
    case 0x01:
      if (!MiscExists(f, opcode)) return false;
      w.u.index = opcode == 1 ? 1 : f.u ? 2 : 3;
      return Vector(w, f, BRINK_AV_SHUFFLE, BRINK_AS_REVERSE, f.rn, f.rn, f.size);
    case 0x05:
      if (!f.u && f.size == 0) return Vector(w, f, BRINK_AV_COUNT_ONES, 0, f.rn, f.rn, 0);
      if (f.u && f.size == 0) {
        w.u.index = BRINK_AV_ZERO_A;
        return Vector(w, f, BRINK_AV_LANE, BRINK_AL_ORN, f.rn, f.rn, 0);
      }
      return f.u && f.size == 1 && w.ClobberVector(f.rd);  // rbit
    case 0x08: return WithZero(w, f, f.u ? BRINK_AL_GE : BRINK_AL_GT, BRINK_AV_ZERO_B);
    case 0x09: return f.u ? WithZero(w, f, BRINK_AL_GE, BRINK_AV_ZERO_A) : WithZero(w, f, BRINK_AL_EQ, BRINK_AV_ZERO_B);
    case 0x0a: return !f.u && WithZero(w, f, BRINK_AL_GT, BRINK_AV_ZERO_A);
    case 0x0b: return f.u ? WithZero(w, f, BRINK_AL_SUB, BRINK_AV_ZERO_A) : f.whole() && w.ClobberVector(f.rd);
    case 0x12:
      if (f.u) return f.size != 3 && w.ClobberVector(f.rd);
      return f.size != 3 && Vector(w, f, BRINK_AV_NARROW, f.q, 0, f.rn, f.size + 1);
    default: return MiscExists(f, opcode) && w.ClobberVector(f.rd);
  }
}

// The same of half precision: a bit for each opcode, by U and bit 23.
bool MiscHalfExists(const Fields& f, uint32_t opcode) {
  constexpr uint32_t kAllocated[4] = {0x3f000000, 0x2f00f000, 0x3f000000, 0xae00b000};
  return kAllocated[(f.u ? 2 : 0) + (f.size >> 1)] >> opcode & 1;
}

bool Across(A64Word& w) {
  const Fields f(w);
  const uint32_t opcode = w.bits(16, 12);
  const bool sized = f.size != 3 && (f.size != 2 || f.q);
  switch (opcode) {
    case 0x1b: return !f.u && sized && Vector(w, f, BRINK_AV_ACROSS, BRINK_AL_ADD, 0, f.rn, f.size);
    case 0x0a: return sized && Vector(w, f, BRINK_AV_ACROSS, f.u ? BRINK_AL_UMAX : BRINK_AL_SMAX, 0, f.rn, f.size);
    case 0x1a: return sized && Vector(w, f, BRINK_AV_ACROSS, f.u ? BRINK_AL_UMIN : BRINK_AL_SMIN, 0, f.rn, f.size);
    case 0x03: return sized && w.ClobberVector(f.rd);
    case 0x0c:
    case 0x0f: return (f.u ? f.q && !(f.size & 1) : !(f.size & 1)) && w.ClobberVector(f.rd);
    default: return false;
  }
}

bool Permute(A64Word& w) {
  const Fields f(w);
  static constexpr uint8_t kKinds[8] = {0, BRINK_AS_UZP1, BRINK_AS_TRN1, BRINK_AS_ZIP1, 0, BRINK_AS_UZP2, BRINK_AS_TRN2, BRINK_AS_ZIP2};
  const uint8_t kind = kKinds[w.bits(14, 12)];
  return kind && f.whole() && Vector(w, f, BRINK_AV_SHUFFLE, kind, f.rn, f.rm, f.size);
}

bool Extract(A64Word& w) {
  const Fields f(w);
  if (!f.q && w.bit(14)) return false;
  w.u.index = static_cast<uint8_t>(w.bits(14, 11));
  return Vector(w, f, BRINK_AV_SHUFFLE, BRINK_AS_EXTRACT, f.rn, f.rm, 0);
}

bool Immediate(A64Word& w) {
  const Fields f(w);
  const uint32_t cmode = w.bits(15, 12);
  if (w.bit(11)) return cmode == 15 && !f.u && w.ClobberVector(f.rd);  // half precision
  uint64_t value;
  if (cmode == 15 && f.u && !f.q) return false;
  if (!a64::VectorImmediate(cmode, f.u, w.bits(18, 16) << 5 | w.bits(9, 5), &value)) return false;
  const bool combines = cmode < 12 && (cmode & 1);
  if (f.u && cmode < 14 && !combines) value = ~value;
  Vector(w, f, BRINK_AV_CONST, static_cast<uint8_t>(combines ? 1 + f.u : 0), 0, 0, 0);
  w.Constant(value);
  return true;
}

// Is the shift by an immediate allocated? e: log2 of the element's bytes.
bool ShiftExists(const Fields& f, uint32_t opcode, uint32_t e) {
  switch (opcode) {
    case 0x00: case 0x02: case 0x04: case 0x06: return e != 3 || f.q;
    case 0x08: return f.u && (e != 3 || f.q);
    case 0x0a: return e != 3 || f.q;
    case 0x0c: return f.u && (e != 3 || f.q);
    case 0x0e: return e != 3 || f.q;
    case 0x10: case 0x11: case 0x12: case 0x13: return e != 3;
    case 0x14: return e != 3;
    case 0x1c: case 0x1f: return e != 0 && (e != 3 || f.q);
    default: return false;
  }
}

bool Shift(A64Word& w) {
  const Fields f(w);
  const uint32_t immh = w.bits(22, 19), imm = w.bits(22, 16), opcode = w.bits(15, 11);
  uint32_t e = 3;
  while (!(immh >> e)) --e;
  const uint32_t width = 8u << e, right = 2 * width - imm, left = imm - width;
  if (!ShiftExists(f, opcode, e)) return false;
  if (opcode == 0x00) {
    w.u.index = static_cast<uint8_t>(right);
    return Vector(w, f, BRINK_AV_SHIFT, f.u ? BRINK_A64_LSR : BRINK_A64_ASR, 0, f.rn, e);
  }
  if (opcode == 0x0a && !f.u) {
    w.u.index = static_cast<uint8_t>(left);
    return Vector(w, f, BRINK_AV_SHIFT, BRINK_A64_LSL, 0, f.rn, e);
  }
  if (opcode == 0x10 && !f.u) {
    w.u.index = static_cast<uint8_t>(right);
    return Vector(w, f, BRINK_AV_NARROW, f.q, 0, f.rn, e + 1);
  }
  if (opcode == 0x14) {
    w.u.index = static_cast<uint8_t>(left);
    return Vector(w, f, BRINK_AV_WIDEN, static_cast<uint8_t>((f.u ? 0 : 1) | (f.q ? 2 : 0)), 0, f.rn, e);
  }
  return w.ClobberVector(f.rd);
}

// One element: those of 64 bits that are followed are vectors of eight bytes.
bool Scalar(A64Word& w) {
  Fields f(w);
  f.q = false;
  if ((w.word & 0xfffffc00) == 0x5ef1b800) return Vector(w, f, BRINK_AV_PAIRWISE, BRINK_AL_ADD, f.rn, f.rn, 3);  // addp
  if ((w.word & 0xffe0fc00) == 0x5e000400) {                                                                     // dup
    const uint32_t imm5 = w.bits(20, 16);
    if (!(imm5 & 15)) return false;
    uint32_t log = 0;
    while (!(imm5 >> log & 1)) ++log;
    w.u.index = static_cast<uint8_t>(imm5 >> (log + 1));
    Vector(w, f, BRINK_AV_REPEAT, 0, 0, f.rn, log);
    w.u.sh = static_cast<uint8_t>(1u << log);
    return true;
  }
  if ((w.word & 0xdfe00400) == 0x5ee00400) {
    for (const SameRow& row : kSame) {
      if (row.opcode == w.bits(15, 11) && row.u == f.u && row.op == BRINK_AV_LANE && row.wide) return Vector(w, f, row.op, row.lane, f.rn, f.rm, 3);
    }
  }
  return w.ClobberVector(f.rd);
}

}  // namespace

bool LiftA64Vector(A64Word& w) {
  w.u.index = 0;  // no address: the number of an element, a count, or nothing
  switch (w.form) {
    case Form::kVectorCopy: return Copy(w);
    case Form::kVectorSame: return Same(w);
    case Form::kVectorMisc: return Misc(w);
    case Form::kVectorAcross: return Across(w);
    case Form::kVectorPermute: return Permute(w);
    case Form::kVectorExtract: return Extract(w);
    case Form::kVectorImmediate: return Immediate(w);
    case Form::kVectorShift: return Shift(w);
    case Form::kVectorScalar: return Scalar(w);
    case Form::kVectorMiscHalf: return MiscHalfExists(Fields(w), w.bits(16, 12)) && w.ClobberVector(w.bits(4, 0));
    case Form::kVectorTable: {
      const Fields f(w);
      if (w.bits(14, 12) == 0) return Vector(w, f, BRINK_AV_TABLE, 0, f.rn, f.rm, 0);
      return w.ClobberVector(f.rd);
    }
    default: return w.ClobberVector(w.bits(4, 0));
  }
}

}  // namespace brink::walk
