// SSE, AVX and AVX-512 instructions that decide branches: a table from mnemonic to operation and form.
#include <array>

#include "walk/decoded.h"
#include "walk/vops.h"

namespace brink::walk {
namespace {

enum class Form : uint8_t {
  kMove,      // register, load or store
  kBinary,    // dst = a op b
  kCompareK,  // mask = a op b, or (legacy, VEX) vector = a == b
  kShiftImm,  // dst = b by imm8
  kShuffle2,  // dst from b by imm8
  kShuffle3,  // dst from a and b (and imm8)
  kTernary,
  kMaskOut,   // general register = top bits
  kGpr,       // movd, movq
  kBroadcast,
  kTest,
  kUpper,
  kLow,       // movlps, movsd, movss: part of a register
  kHigh,
  kString,    // pcmpistri and its kin
};

struct Row {
  ZydisMnemonic mnemonic;
  Form form;
  uint8_t aux;     // operation within the form
  uint8_t e = 0;   // log2 of the element's bytes
};

#define BOTH(name, form, aux, e) {ZYDIS_MNEMONIC_##name, form, aux, e}, {ZYDIS_MNEMONIC_V##name, form, aux, e}
constexpr Row kRows[] = {
    BOTH(MOVDQA, Form::kMove, 1, 2), BOTH(MOVDQU, Form::kMove, 0, 2), BOTH(MOVAPS, Form::kMove, 1, 2), BOTH(MOVAPD, Form::kMove, 1, 3),
    BOTH(MOVUPS, Form::kMove, 0, 2), BOTH(MOVUPD, Form::kMove, 0, 3), BOTH(LDDQU, Form::kMove, 0, 2),
    BOTH(MOVNTDQ, Form::kMove, 1, 2), BOTH(MOVNTPS, Form::kMove, 1, 2), BOTH(MOVNTPD, Form::kMove, 1, 3), BOTH(MOVNTDQA, Form::kMove, 1, 2),
    {ZYDIS_MNEMONIC_VMOVDQU8, Form::kMove, 0, 0}, {ZYDIS_MNEMONIC_VMOVDQU16, Form::kMove, 0, 1}, {ZYDIS_MNEMONIC_VMOVDQU32, Form::kMove, 0, 2},
    {ZYDIS_MNEMONIC_VMOVDQU64, Form::kMove, 0, 3}, {ZYDIS_MNEMONIC_VMOVDQA32, Form::kMove, 1, 2}, {ZYDIS_MNEMONIC_VMOVDQA64, Form::kMove, 1, 3},
    BOTH(PAND, Form::kBinary, BRINK_VL_AND, 3), BOTH(PANDN, Form::kBinary, BRINK_VL_ANDN, 3), BOTH(POR, Form::kBinary, BRINK_VL_OR, 3),
    BOTH(PXOR, Form::kBinary, BRINK_VL_XOR, 3), BOTH(ANDPS, Form::kBinary, BRINK_VL_AND, 2), BOTH(ANDPD, Form::kBinary, BRINK_VL_AND, 3),
    BOTH(ANDNPS, Form::kBinary, BRINK_VL_ANDN, 2), BOTH(ANDNPD, Form::kBinary, BRINK_VL_ANDN, 3), BOTH(ORPS, Form::kBinary, BRINK_VL_OR, 2),
    BOTH(ORPD, Form::kBinary, BRINK_VL_OR, 3), BOTH(XORPS, Form::kBinary, BRINK_VL_XOR, 2), BOTH(XORPD, Form::kBinary, BRINK_VL_XOR, 3),
    {ZYDIS_MNEMONIC_VPANDD, Form::kBinary, BRINK_VL_AND, 2}, {ZYDIS_MNEMONIC_VPANDQ, Form::kBinary, BRINK_VL_AND, 3},
    {ZYDIS_MNEMONIC_VPANDND, Form::kBinary, BRINK_VL_ANDN, 2}, {ZYDIS_MNEMONIC_VPANDNQ, Form::kBinary, BRINK_VL_ANDN, 3},
    {ZYDIS_MNEMONIC_VPORD, Form::kBinary, BRINK_VL_OR, 2}, {ZYDIS_MNEMONIC_VPORQ, Form::kBinary, BRINK_VL_OR, 3},
    {ZYDIS_MNEMONIC_VPXORD, Form::kBinary, BRINK_VL_XOR, 2}, {ZYDIS_MNEMONIC_VPXORQ, Form::kBinary, BRINK_VL_XOR, 3},
    BOTH(PADDB, Form::kBinary, BRINK_VL_ADD, 0), BOTH(PADDW, Form::kBinary, BRINK_VL_ADD, 1), BOTH(PADDD, Form::kBinary, BRINK_VL_ADD, 2),
    BOTH(PADDQ, Form::kBinary, BRINK_VL_ADD, 3), BOTH(PSUBB, Form::kBinary, BRINK_VL_SUB, 0), BOTH(PSUBW, Form::kBinary, BRINK_VL_SUB, 1),
    BOTH(PSUBD, Form::kBinary, BRINK_VL_SUB, 2), BOTH(PSUBQ, Form::kBinary, BRINK_VL_SUB, 3),
    BOTH(PCMPEQB, Form::kCompareK, BRINK_VL_EQ, 0), BOTH(PCMPEQW, Form::kCompareK, BRINK_VL_EQ, 1), BOTH(PCMPEQD, Form::kCompareK, BRINK_VL_EQ, 2),
    BOTH(PCMPEQQ, Form::kCompareK, BRINK_VL_EQ, 3), BOTH(PCMPGTB, Form::kCompareK, BRINK_VL_GT, 0), BOTH(PCMPGTW, Form::kCompareK, BRINK_VL_GT, 1),
    BOTH(PCMPGTD, Form::kCompareK, BRINK_VL_GT, 2), BOTH(PCMPGTQ, Form::kCompareK, BRINK_VL_GT, 3),
    BOTH(PMINUB, Form::kBinary, BRINK_VL_MINU, 0), BOTH(PMINUW, Form::kBinary, BRINK_VL_MINU, 1), BOTH(PMINUD, Form::kBinary, BRINK_VL_MINU, 2),
    BOTH(PMAXUB, Form::kBinary, BRINK_VL_MAXU, 0), BOTH(PMAXUW, Form::kBinary, BRINK_VL_MAXU, 1), BOTH(PMAXUD, Form::kBinary, BRINK_VL_MAXU, 2),
    BOTH(PMINSB, Form::kBinary, BRINK_VL_MINS, 0), BOTH(PMINSW, Form::kBinary, BRINK_VL_MINS, 1), BOTH(PMINSD, Form::kBinary, BRINK_VL_MINS, 2),
    BOTH(PMAXSB, Form::kBinary, BRINK_VL_MAXS, 0), BOTH(PMAXSW, Form::kBinary, BRINK_VL_MAXS, 1), BOTH(PMAXSD, Form::kBinary, BRINK_VL_MAXS, 2),
    {ZYDIS_MNEMONIC_VPCMPB, Form::kCompareK, 16, 0}, {ZYDIS_MNEMONIC_VPCMPW, Form::kCompareK, 16, 1}, {ZYDIS_MNEMONIC_VPCMPD, Form::kCompareK, 16, 2},
    {ZYDIS_MNEMONIC_VPCMPQ, Form::kCompareK, 16, 3}, {ZYDIS_MNEMONIC_VPCMPUB, Form::kCompareK, 32, 0}, {ZYDIS_MNEMONIC_VPCMPUW, Form::kCompareK, 32, 1},
    {ZYDIS_MNEMONIC_VPCMPUD, Form::kCompareK, 32, 2}, {ZYDIS_MNEMONIC_VPCMPUQ, Form::kCompareK, 32, 3},
    {ZYDIS_MNEMONIC_VPTESTMB, Form::kCompareK, 64 + 8, 0}, {ZYDIS_MNEMONIC_VPTESTMW, Form::kCompareK, 64 + 8, 1}, {ZYDIS_MNEMONIC_VPTESTMD, Form::kCompareK, 64 + 8, 2},
    {ZYDIS_MNEMONIC_VPTESTMQ, Form::kCompareK, 64 + 8, 3}, {ZYDIS_MNEMONIC_VPTESTNMB, Form::kCompareK, 64 + 9, 0}, {ZYDIS_MNEMONIC_VPTESTNMW, Form::kCompareK, 64 + 9, 1},
    {ZYDIS_MNEMONIC_VPTESTNMD, Form::kCompareK, 64 + 9, 2}, {ZYDIS_MNEMONIC_VPTESTNMQ, Form::kCompareK, 64 + 9, 3},
    BOTH(PSLLW, Form::kShiftImm, 0, 1), BOTH(PSLLD, Form::kShiftImm, 0, 2), BOTH(PSLLQ, Form::kShiftImm, 0, 3), BOTH(PSRLW, Form::kShiftImm, 1, 1),
    BOTH(PSRLD, Form::kShiftImm, 1, 2), BOTH(PSRLQ, Form::kShiftImm, 1, 3), BOTH(PSRAW, Form::kShiftImm, 2, 1), BOTH(PSRAD, Form::kShiftImm, 2, 2),
    BOTH(PSLLDQ, Form::kShuffle2, BRINK_VS_LEFT, 0), BOTH(PSRLDQ, Form::kShuffle2, BRINK_VS_RIGHT, 0),
    BOTH(PSHUFD, Form::kShuffle2, BRINK_VS_DWORDS, 2), BOTH(PSHUFLW, Form::kShuffle2, BRINK_VS_LOW_WORDS, 1), BOTH(PSHUFHW, Form::kShuffle2, BRINK_VS_HIGH_WORDS, 1),
    BOTH(PSHUFB, Form::kShuffle3, BRINK_VS_BYTES, 0), BOTH(PALIGNR, Form::kShuffle3, BRINK_VS_ALIGN, 0),
    BOTH(PUNPCKLBW, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 0), BOTH(PUNPCKLWD, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 1), BOTH(PUNPCKLDQ, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 2),
    BOTH(PUNPCKLQDQ, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 3), BOTH(PUNPCKHBW, Form::kShuffle3, BRINK_VS_UNPACK_HIGH, 0), BOTH(PUNPCKHWD, Form::kShuffle3, BRINK_VS_UNPACK_HIGH, 1),
    BOTH(PUNPCKHDQ, Form::kShuffle3, BRINK_VS_UNPACK_HIGH, 2), BOTH(PUNPCKHQDQ, Form::kShuffle3, BRINK_VS_UNPACK_HIGH, 3),
    BOTH(UNPCKLPS, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 2), BOTH(UNPCKLPD, Form::kShuffle3, BRINK_VS_UNPACK_LOW, 3), BOTH(SHUFPS, Form::kShuffle3, BRINK_VS_SINGLES, 2),
    {ZYDIS_MNEMONIC_VPTERNLOGD, Form::kTernary, 0, 2}, {ZYDIS_MNEMONIC_VPTERNLOGQ, Form::kTernary, 0, 3},
    BOTH(PMOVMSKB, Form::kMaskOut, 0, 0), BOTH(MOVMSKPS, Form::kMaskOut, 0, 2), BOTH(MOVMSKPD, Form::kMaskOut, 0, 3),
    BOTH(MOVD, Form::kGpr, 0, 2), BOTH(MOVQ, Form::kGpr, 0, 3), BOTH(PTEST, Form::kTest, 0, 0),
    BOTH(PCMPISTRI, Form::kString, 0, 0), BOTH(PCMPISTRM, Form::kString, BRINK_STR_MASK, 0), BOTH(PCMPESTRI, Form::kString, BRINK_STR_EXPLICIT, 0),
    BOTH(PCMPESTRM, Form::kString, BRINK_STR_EXPLICIT | BRINK_STR_MASK, 0),
    {ZYDIS_MNEMONIC_VPBROADCASTB, Form::kBroadcast, 0, 0}, {ZYDIS_MNEMONIC_VPBROADCASTW, Form::kBroadcast, 0, 1}, {ZYDIS_MNEMONIC_VPBROADCASTD, Form::kBroadcast, 0, 2},
    {ZYDIS_MNEMONIC_VPBROADCASTQ, Form::kBroadcast, 0, 3}, {ZYDIS_MNEMONIC_VBROADCASTSS, Form::kBroadcast, 0, 2}, {ZYDIS_MNEMONIC_VBROADCASTSD, Form::kBroadcast, 0, 3},
    {ZYDIS_MNEMONIC_VZEROUPPER, Form::kUpper, 0, 0}, {ZYDIS_MNEMONIC_VZEROALL, Form::kUpper, 1, 0},
    BOTH(MOVSS, Form::kLow, 1, 2), BOTH(MOVSD, Form::kLow, 1, 3), BOTH(MOVLPS, Form::kLow, 0, 3), BOTH(MOVLPD, Form::kLow, 0, 3),
    BOTH(MOVHPS, Form::kHigh, 0, 3), BOTH(MOVHPD, Form::kHigh, 0, 3),
};
#undef BOTH

const Row* FindRow(ZydisMnemonic mnemonic) {
  static const auto index = [] {
    std::array<const Row*, ZYDIS_MNEMONIC_MAX_VALUE + 1> made{};
    for (const Row& row : kRows) made[row.mnemonic] = &row;
    return made;
  }();
  return index[mnemonic];
}

// The operands of a vector instruction without its write mask.
class VectorLift {
 public:
  VectorLift(const Decoded& d, const Row& row, Insn* out) : d_(d), row_(row), u_(out->uop), b_(d, out) {
    for (int i = 0; i < d.visible(); ++i) {
      if (d.operand(i).encoding != ZYDIS_OPERAND_ENCODING_MASK) at_[count_++] = i;
    }
    legacy_ = d.insn.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
  }
  bool Lift();

 private:
  const ZydisDecodedOperand& Op(int i) const { return d_.operand(at_[i]); }
  bool IsMemory(int i) const { return Op(i).type == ZYDIS_OPERAND_TYPE_MEMORY; }
  bool Masks();
  bool Vector(int i, uint8_t* field);
  bool Source(int i, bool aligned);
  bool SourcesOf(int first);
  bool Imm(int i);
  bool Move();
  bool Compare();
  bool Gpr();
  bool Part();

  const Decoded& d_;
  const Row& row_;
  MicroOp& u_;
  UopBuilder b_;
  int at_[8] = {};
  int count_ = 0;
  bool legacy_;
};

bool VectorLift::Masks() {
  u_.imm = static_cast<int32_t>(row_.e << 14 | (legacy_ ? BRINK_V_LEGACY : 0));
  if (d_.insn.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX) return true;
  if (d_.insn.avx.mask.mode == ZYDIS_MASK_MODE_ZEROING) u_.imm |= BRINK_V_ZEROING;
  if (d_.insn.avx.mask.reg >= ZYDIS_REGISTER_K1 && d_.insn.avx.mask.reg <= ZYDIS_REGISTER_K7) u_.imm |= (d_.insn.avx.mask.reg - ZYDIS_REGISTER_K0) << 8;
  return true;
}

bool VectorLift::Vector(int i, uint8_t* field) {
  auto reg = Op(i).type == ZYDIS_OPERAND_TYPE_REGISTER ? VectorRegister(Op(i).reg.value) : std::nullopt;
  if (!reg) return false;
  *field = *reg;
  return true;
}

bool VectorLift::Source(int i, bool aligned) {
  if (!IsMemory(i)) return Vector(i, &u_.src);
  u_.src = BRINK_V_MEM;
  if (!b_.Memory(at_[i], 0)) return false;
  unsigned bytes = Op(i).size / 8;
  if (d_.insn.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID && !d_.insn.avx.broadcast.is_static) {
    bytes = 1u << row_.e;
    u_.imm |= BRINK_V_BROADCAST;
  }
  u_.msh = static_cast<uint8_t>(bytes);
  if (aligned && bytes >= 16) u_.imm |= BRINK_V_ALIGNED;
  return true;
}

bool VectorLift::Imm(int i) {
  if (i >= count_ || Op(i).type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return false;
  u_.imm |= static_cast<int32_t>(Op(i).imm.value.u & 0xff);
  return true;
}

// a and b: of legacy instructions a is the destination.
bool VectorLift::SourcesOf(int first) {
  if (legacy_) return Vector(0, &u_.src2) && Source(1, true);
  return Vector(first, &u_.src2) && Source(first + 1, false);
}

bool VectorLift::Move() {
  u_.op = BRINK_VOP_MOVE;
  if (!IsMemory(0)) return Vector(0, &u_.dst) && Source(1, row_.aux);
  u_.op = BRINK_VOP_STORE;
  if (!Vector(1, &u_.src) || !b_.Memory(at_[0], 0)) return false;
  u_.msh = static_cast<uint8_t>(Op(0).size / 8);
  if (row_.aux) u_.imm |= BRINK_V_ALIGNED;
  return true;
}

bool VectorLift::Compare() {
  auto mask = Op(0).type == ZYDIS_OPERAND_TYPE_REGISTER ? MaskRegister(Op(0).reg.value) : std::nullopt;
  if (!SourcesOf(1)) return false;
  if (!mask) {
    u_.op = BRINK_VOP_LANE;
    u_.aux = row_.aux;
    return row_.aux < 16 && Vector(0, &u_.dst);
  }
  u_.op = BRINK_VOP_COMPARE;
  u_.dst = *mask;
  if (row_.aux == BRINK_VL_EQ) u_.aux = 0;
  else if (row_.aux == BRINK_VL_GT) u_.aux = 16 | 6;
  else if (row_.aux >= 64) u_.aux = row_.aux - 64;
  else {
    if (!Imm(3)) return false;
    u_.aux = static_cast<uint8_t>((u_.imm & 7) | (row_.aux == 16 ? 16 : 0));
  }
  return true;
}

// movd and movq between a vector register and a general one, memory or another vector register.
bool VectorLift::Gpr() {
  const uint8_t bytes = static_cast<uint8_t>(1 << row_.e);
  bool high;
  u_.sh = 16;
  if (IsMemory(0)) {
    u_.op = BRINK_VOP_STORE;
    if (!Vector(1, &u_.src) || !b_.Memory(at_[0], 0)) return false;
    u_.msh = bytes;
    return Op(0).size == bytes * 8u;
  }
  const auto to = GeneralRegister(Op(0).reg.value, &high);
  if (to) {
    u_.op = BRINK_VOP_TO_GPR;
    u_.dst = *to;
    u_.msh = bytes;
    return Vector(1, &u_.src);
  }
  if (!Vector(0, &u_.dst)) return false;
  if (IsMemory(1)) {
    u_.op = BRINK_VOP_MOVE;
    return Source(1, false) && u_.msh == bytes;
  }
  const auto from = GeneralRegister(Op(1).reg.value, &high);
  if (!from) return false;
  u_.op = BRINK_VOP_FROM_GPR;
  u_.src = *from;
  u_.msh = bytes;
  return true;
}

// movss, movsd, movlps, movhps. aux 1: a load clears the rest.
bool VectorLift::Part() {
  const bool high = row_.form == Form::kHigh;
  if (u_.imm & 0x700) return false;
  u_.sh = 16;
  if (IsMemory(0)) {
    u_.op = BRINK_VOP_STORE;
    if (!Vector(1, &u_.src) || !b_.Memory(at_[0], 0)) return false;
    u_.msh = static_cast<uint8_t>(1 << row_.e);
    u_.aux = high ? 8 : 0;
    return true;
  }
  if (!Vector(0, &u_.dst)) return false;
  if (row_.aux && IsMemory(1)) {
    u_.op = BRINK_VOP_MOVE;
    return Source(1, false);
  }
  if (count_ != (legacy_ ? 2 : 3)) return false;
  u_.op = BRINK_VOP_SHUFFLE;
  u_.aux = high ? BRINK_VS_HIGH : BRINK_VS_LOW;
  return SourcesOf(1);
}

bool VectorLift::Lift() {
  if (!Masks()) return false;
  // MMX forms, and rounding controls, are not vectors of ours.
  for (int i = 0; i < count_; ++i) {
    if (Op(i).type == ZYDIS_OPERAND_TYPE_REGISTER && ZydisRegisterGetClass(Op(i).reg.value) == ZYDIS_REGCLASS_MMX) return false;
  }
  if (row_.form == Form::kUpper) {
    u_.op = BRINK_VOP_ZERO_UPPER;
    u_.aux = row_.aux;
    return true;
  }
  if (count_ < 2) return false;
  unsigned length = 16;
  for (int i = 0; i < count_; ++i) {
    if (Op(i).type == ZYDIS_OPERAND_TYPE_REGISTER && VectorRegister(Op(i).reg.value) && Op(i).size / 8 > length && Op(i).size <= 512) length = Op(i).size / 8;
  }
  u_.sh = static_cast<uint8_t>(length);
  switch (row_.form) {
    case Form::kMove: return Move();
    case Form::kBinary:
      u_.op = BRINK_VOP_LANE;
      u_.aux = row_.aux;
      if (!Vector(0, &u_.dst) || !SourcesOf(1)) return false;
      if (u_.src == u_.src2 && (row_.aux == BRINK_VL_XOR || row_.aux == BRINK_VL_SUB || row_.aux == BRINK_VL_ANDN)) {
        u_.op = BRINK_VOP_CONST;
        u_.aux = 0;
      }
      return true;
    case Form::kCompareK:
      if (!Compare()) return false;
      if (u_.op == BRINK_VOP_LANE && u_.src == u_.src2) {
        u_.op = BRINK_VOP_CONST;
        u_.aux = row_.aux == BRINK_VL_EQ;
      }
      return true;
    case Form::kShiftImm:
    case Form::kShuffle2: {
      const int imm = count_ - 1, from = legacy_ && count_ == 2 ? 0 : 1;
      u_.op = row_.form == Form::kShiftImm ? BRINK_VOP_SHIFT : BRINK_VOP_SHUFFLE;
      u_.aux = row_.aux;
      return Imm(imm) && Vector(0, &u_.dst) && Source(from, legacy_);
    }
    case Form::kShuffle3:
      u_.op = BRINK_VOP_SHUFFLE;
      u_.aux = row_.aux;
      if (Op(count_ - 1).type == ZYDIS_OPERAND_TYPE_IMMEDIATE && !Imm(count_ - 1)) return false;
      return Vector(0, &u_.dst) && SourcesOf(1);
    case Form::kTernary:
      u_.op = BRINK_VOP_TERNARY;
      return Imm(3) && Vector(0, &u_.dst) && SourcesOf(1);
    case Form::kMaskOut: {
      bool high;
      const auto to = GeneralRegister(Op(0).reg.value, &high);
      u_.op = BRINK_VOP_MOVMSK;
      if (to) u_.dst = *to;
      return to && Vector(1, &u_.src);
    }
    case Form::kGpr: return Gpr();
    case Form::kBroadcast: {
      bool high;
      u_.op = BRINK_VOP_BROADCAST;
      if (!Vector(0, &u_.dst)) return false;
      const auto from = IsMemory(1) ? std::nullopt : GeneralRegister(Op(1).reg.value, &high);
      if (from) {
        u_.aux = 1;
        u_.src = *from;
        return true;
      }
      if (!Source(1, false)) return false;
      if (u_.src == BRINK_V_MEM) {
        u_.msh = static_cast<uint8_t>(1 << row_.e);
        u_.imm &= ~BRINK_V_BROADCAST;
      }
      return true;
    }
    case Form::kTest:
      u_.op = BRINK_VOP_TEST;
      return Vector(0, &u_.src2) && Source(1, legacy_);
    case Form::kString:
      u_.op = BRINK_VOP_STRING;
      u_.aux = static_cast<uint8_t>(row_.aux | (d_.insn.operand_width == 64 ? BRINK_STR_WIDE : 0));
      u_.dst = 0;  // xmm0, where a mask goes
      return Imm(2) && Vector(0, &u_.src2) && Source(1, false);
    default: return Part();
  }
}

struct MaskRow {
  ZydisMnemonic mnemonic;
  uint8_t op;
  uint8_t aux;
  uint8_t bits;
};

#define WIDTHS(name, op, aux) \
  {ZYDIS_MNEMONIC_##name##B, op, aux, 8}, {ZYDIS_MNEMONIC_##name##W, op, aux, 16}, {ZYDIS_MNEMONIC_##name##D, op, aux, 32}, {ZYDIS_MNEMONIC_##name##Q, op, aux, 64}
constexpr MaskRow kMaskRows[] = {
    WIDTHS(KAND, BRINK_VOP_KLOGIC, BRINK_KL_AND), WIDTHS(KANDN, BRINK_VOP_KLOGIC, BRINK_KL_ANDN), WIDTHS(KOR, BRINK_VOP_KLOGIC, BRINK_KL_OR),
    WIDTHS(KXOR, BRINK_VOP_KLOGIC, BRINK_KL_XOR), WIDTHS(KXNOR, BRINK_VOP_KLOGIC, BRINK_KL_XNOR), WIDTHS(KNOT, BRINK_VOP_KLOGIC, BRINK_KL_NOT),
    WIDTHS(KSHIFTL, BRINK_VOP_KLOGIC, BRINK_KL_SHIFT_LEFT), WIDTHS(KSHIFTR, BRINK_VOP_KLOGIC, BRINK_KL_SHIFT_RIGHT), WIDTHS(KADD, BRINK_VOP_KLOGIC, BRINK_KL_ADD),
    WIDTHS(KORTEST, BRINK_VOP_KTEST, 0), WIDTHS(KTEST, BRINK_VOP_KTEST, 1), WIDTHS(KMOV, BRINK_OP_MOV, 0),
    {ZYDIS_MNEMONIC_KUNPCKBW, BRINK_VOP_KLOGIC, BRINK_KL_UNPACK, 16}, {ZYDIS_MNEMONIC_KUNPCKWD, BRINK_VOP_KLOGIC, BRINK_KL_UNPACK, 32},
    {ZYDIS_MNEMONIC_KUNPCKDQ, BRINK_VOP_KLOGIC, BRINK_KL_UNPACK, 64},
};
#undef WIDTHS

std::optional<uint8_t> MaskOrGeneral(const ZydisDecodedOperand& op) {
  bool high;
  if (op.type != ZYDIS_OPERAND_TYPE_REGISTER) return std::nullopt;
  if (auto mask = MaskRegister(op.reg.value)) return mask;
  return GeneralRegister(op.reg.value, &high);
}

// kmov is an integer move: the mask registers lie in the same file.
bool LiftMaskMove(const Decoded& d, unsigned bits, UopBuilder& b) {
  MicroOp& u = b.uop();
  u.op = BRINK_OP_MOV;
  b.Size(64);
  b.SourceSize(bits);
  const auto to = MaskOrGeneral(d.operand(0)), from = MaskOrGeneral(d.operand(1));
  if (to) u.dst = *to;
  if (from) u.src = *from;
  if (to && from) return true;
  if (from) return b.Dst(0, false);
  return to && b.Src(1);
}

bool LiftMask(const Decoded& d, Insn* out) {
  for (const MaskRow& row : kMaskRows) {
    if (row.mnemonic != d.insn.mnemonic) continue;
    UopBuilder b(d, out);
    MicroOp& u = b.uop();
    if (row.op == BRINK_OP_MOV) return LiftMaskMove(d, row.bits, b);
    u.op = row.op;
    u.aux = row.aux;
    b.Size(row.bits);
    const auto first = MaskOrGeneral(d.operand(0)), second = MaskOrGeneral(d.operand(1));
    if (!first || !second) return false;
    if (row.op == BRINK_VOP_KTEST) {
      u.src2 = *first;
      u.src = *second;
      return true;
    }
    u.dst = *first;
    u.src2 = u.src = *second;
    if (d.visible() < 3) return true;
    if (d.operand(2).type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      u.imm = static_cast<int32_t>(d.operand(2).imm.value.u & 0xff);
      return true;
    }
    const auto third = MaskOrGeneral(d.operand(2));
    if (third) u.src = *third;
    return third.has_value();
  }
  return false;
}

}  // namespace

bool LiftVector(const Decoded& decoded, Insn* out) {
  const MicroOp before = out->uop;
  const Row* row = FindRow(decoded.insn.mnemonic);
  if (row ? VectorLift(decoded, *row, out).Lift() : LiftMask(decoded, out)) return true;
  out->uop = before;
  return false;
}

}  // namespace brink::walk
