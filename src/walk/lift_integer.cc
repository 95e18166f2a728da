// Integer instructions: a table from mnemonic to operation and form.
#include <array>

#include "walk/decoded.h"

namespace brink::walk {
namespace {

enum class Form : uint8_t {
  kNone,
  kTwo,       // dst = dst op src
  kCompare,   // flags of dst op src
  kMove,
  kExtend,    // movzx, movsx, movsxd
  kLea,
  kOne,       // dst = op dst
  kSet,       // dst written only, 8 bits
  kCmov,
  kShift,     // dst by imm or cl
  kShiftD,
  kShiftX,    // dst = src by src2
  kWide,      // rdx:rax op src
  kImul,
  kMulx,
  kScan,      // dst = op src
  kThree,     // dst = src2 op src (vex order: dst, src2, src)
  kThreeRev,  // dst = src op src2 (vex order: dst, src, src2)
  kBitTest,
  kExchange,
  kCmpxchgWide,
  kAccumulator,  // cbw, cwd: size told by aux
  kFlags,
  kBswap,
  kCrc,
  kString,
};

struct Row {
  ZydisMnemonic mnemonic;
  uint8_t op;
  Form form;
  uint8_t aux = 0;
};

constexpr Row kRows[] = {
    {ZYDIS_MNEMONIC_ADD, BRINK_OP_ADD, Form::kTwo},
    {ZYDIS_MNEMONIC_SUB, BRINK_OP_SUB, Form::kTwo},
    {ZYDIS_MNEMONIC_AND, BRINK_OP_AND, Form::kTwo},
    {ZYDIS_MNEMONIC_OR, BRINK_OP_OR, Form::kTwo},
    {ZYDIS_MNEMONIC_XOR, BRINK_OP_XOR, Form::kTwo},
    {ZYDIS_MNEMONIC_ADC, BRINK_OP_ADC, Form::kTwo},
    {ZYDIS_MNEMONIC_SBB, BRINK_OP_SBB, Form::kTwo},
    {ZYDIS_MNEMONIC_ADCX, BRINK_OP_ADCX, Form::kTwo},
    {ZYDIS_MNEMONIC_ADOX, BRINK_OP_ADOX, Form::kTwo},
    {ZYDIS_MNEMONIC_CMP, BRINK_OP_CMP, Form::kCompare},
    {ZYDIS_MNEMONIC_TEST, BRINK_OP_TEST, Form::kCompare},
    {ZYDIS_MNEMONIC_MOV, BRINK_OP_MOV, Form::kMove},
    {ZYDIS_MNEMONIC_MOVNTI, BRINK_OP_MOV, Form::kMove},
    {ZYDIS_MNEMONIC_MOVDIRI, BRINK_OP_MOV, Form::kMove},
    {ZYDIS_MNEMONIC_MOVBE, BRINK_OP_MOVBE, Form::kMove},
    {ZYDIS_MNEMONIC_MOVZX, BRINK_OP_MOV, Form::kExtend},
    {ZYDIS_MNEMONIC_MOVSX, BRINK_OP_MOVSX, Form::kExtend},
    {ZYDIS_MNEMONIC_MOVSXD, BRINK_OP_MOVSX, Form::kExtend},
    {ZYDIS_MNEMONIC_LEA, BRINK_OP_MOV, Form::kLea},
    {ZYDIS_MNEMONIC_INC, BRINK_OP_INC, Form::kOne},
    {ZYDIS_MNEMONIC_DEC, BRINK_OP_DEC, Form::kOne},
    {ZYDIS_MNEMONIC_NEG, BRINK_OP_NEG, Form::kOne},
    {ZYDIS_MNEMONIC_NOT, BRINK_OP_NOT, Form::kOne},
    {ZYDIS_MNEMONIC_SHL, BRINK_OP_SHL, Form::kShift},
    {ZYDIS_MNEMONIC_SHR, BRINK_OP_SHR, Form::kShift},
    {ZYDIS_MNEMONIC_SAR, BRINK_OP_SAR, Form::kShift},
    {ZYDIS_MNEMONIC_ROL, BRINK_OP_ROL, Form::kShift},
    {ZYDIS_MNEMONIC_ROR, BRINK_OP_ROR, Form::kShift},
    {ZYDIS_MNEMONIC_RCL, BRINK_OP_RCL, Form::kShift},
    {ZYDIS_MNEMONIC_RCR, BRINK_OP_RCR, Form::kShift},
    {ZYDIS_MNEMONIC_SHLD, BRINK_OP_SHLD, Form::kShiftD},
    {ZYDIS_MNEMONIC_SHRD, BRINK_OP_SHRD, Form::kShiftD},
    {ZYDIS_MNEMONIC_SHLX, BRINK_OP_SHLX, Form::kShiftX},
    {ZYDIS_MNEMONIC_SHRX, BRINK_OP_SHRX, Form::kShiftX},
    {ZYDIS_MNEMONIC_SARX, BRINK_OP_SARX, Form::kShiftX},
    {ZYDIS_MNEMONIC_RORX, BRINK_OP_RORX, Form::kShiftX},
    {ZYDIS_MNEMONIC_MUL, BRINK_OP_MUL1, Form::kWide},
    {ZYDIS_MNEMONIC_DIV, BRINK_OP_DIV, Form::kWide},
    {ZYDIS_MNEMONIC_IDIV, BRINK_OP_IDIV, Form::kWide},
    {ZYDIS_MNEMONIC_IMUL, BRINK_OP_IMUL, Form::kImul},
    {ZYDIS_MNEMONIC_MULX, BRINK_OP_MULX, Form::kMulx},
    {ZYDIS_MNEMONIC_BT, BRINK_OP_BT, Form::kBitTest},
    {ZYDIS_MNEMONIC_BTS, BRINK_OP_BTS, Form::kBitTest},
    {ZYDIS_MNEMONIC_BTR, BRINK_OP_BTR, Form::kBitTest},
    {ZYDIS_MNEMONIC_BTC, BRINK_OP_BTC, Form::kBitTest},
    {ZYDIS_MNEMONIC_BSF, BRINK_OP_BSF, Form::kScan},
    {ZYDIS_MNEMONIC_BSR, BRINK_OP_BSR, Form::kScan},
    {ZYDIS_MNEMONIC_TZCNT, BRINK_OP_TZCNT, Form::kScan},
    {ZYDIS_MNEMONIC_LZCNT, BRINK_OP_LZCNT, Form::kScan},
    {ZYDIS_MNEMONIC_POPCNT, BRINK_OP_POPCNT, Form::kScan},
    {ZYDIS_MNEMONIC_BLSI, BRINK_OP_BLSI, Form::kScan},
    {ZYDIS_MNEMONIC_BLSMSK, BRINK_OP_BLSMSK, Form::kScan},
    {ZYDIS_MNEMONIC_BLSR, BRINK_OP_BLSR, Form::kScan},
    {ZYDIS_MNEMONIC_ANDN, BRINK_OP_ANDN, Form::kThree},
    {ZYDIS_MNEMONIC_PDEP, BRINK_OP_PDEP, Form::kThree},
    {ZYDIS_MNEMONIC_PEXT, BRINK_OP_PEXT, Form::kThree},
    {ZYDIS_MNEMONIC_BEXTR, BRINK_OP_BEXTR, Form::kThreeRev},
    {ZYDIS_MNEMONIC_BZHI, BRINK_OP_BZHI, Form::kThreeRev},
    {ZYDIS_MNEMONIC_BSWAP, BRINK_OP_BSWAP, Form::kBswap},
    {ZYDIS_MNEMONIC_CRC32, BRINK_OP_CRC32, Form::kCrc},
    {ZYDIS_MNEMONIC_XCHG, BRINK_OP_XCHG, Form::kExchange},
    {ZYDIS_MNEMONIC_XADD, BRINK_OP_XADD, Form::kExchange},
    {ZYDIS_MNEMONIC_CMPXCHG, BRINK_OP_CMPXCHG, Form::kExchange},
    {ZYDIS_MNEMONIC_CMPXCHG8B, BRINK_OP_CMPXCHG16B, Form::kCmpxchgWide, 8},
    {ZYDIS_MNEMONIC_CMPXCHG16B, BRINK_OP_CMPXCHG16B, Form::kCmpxchgWide, 16},
    {ZYDIS_MNEMONIC_CBW, BRINK_OP_CBW, Form::kAccumulator, 16},
    {ZYDIS_MNEMONIC_CWDE, BRINK_OP_CBW, Form::kAccumulator, 32},
    {ZYDIS_MNEMONIC_CDQE, BRINK_OP_CBW, Form::kAccumulator, 64},
    {ZYDIS_MNEMONIC_CWD, BRINK_OP_CWD, Form::kAccumulator, 16},
    {ZYDIS_MNEMONIC_CDQ, BRINK_OP_CWD, Form::kAccumulator, 32},
    {ZYDIS_MNEMONIC_CQO, BRINK_OP_CWD, Form::kAccumulator, 64},
    {ZYDIS_MNEMONIC_LAHF, BRINK_OP_LAHF, Form::kFlags},
    {ZYDIS_MNEMONIC_SAHF, BRINK_OP_SAHF, Form::kFlags},
    {ZYDIS_MNEMONIC_CLC, BRINK_OP_CLC, Form::kFlags},
    {ZYDIS_MNEMONIC_STC, BRINK_OP_STC, Form::kFlags},
    {ZYDIS_MNEMONIC_CMC, BRINK_OP_CMC, Form::kFlags},
    {ZYDIS_MNEMONIC_CLD, BRINK_OP_CLD, Form::kFlags},
    {ZYDIS_MNEMONIC_STD, BRINK_OP_STD, Form::kFlags},
    {ZYDIS_MNEMONIC_MOVSB, BRINK_OP_MOVS, Form::kString, 8},
    {ZYDIS_MNEMONIC_MOVSW, BRINK_OP_MOVS, Form::kString, 16},
    {ZYDIS_MNEMONIC_MOVSD, BRINK_OP_MOVS, Form::kString, 32},
    {ZYDIS_MNEMONIC_MOVSQ, BRINK_OP_MOVS, Form::kString, 64},
    {ZYDIS_MNEMONIC_STOSB, BRINK_OP_STOS, Form::kString, 8},
    {ZYDIS_MNEMONIC_STOSW, BRINK_OP_STOS, Form::kString, 16},
    {ZYDIS_MNEMONIC_STOSD, BRINK_OP_STOS, Form::kString, 32},
    {ZYDIS_MNEMONIC_STOSQ, BRINK_OP_STOS, Form::kString, 64},
    {ZYDIS_MNEMONIC_LODSB, BRINK_OP_LODS, Form::kString, 8},
    {ZYDIS_MNEMONIC_LODSW, BRINK_OP_LODS, Form::kString, 16},
    {ZYDIS_MNEMONIC_LODSD, BRINK_OP_LODS, Form::kString, 32},
    {ZYDIS_MNEMONIC_LODSQ, BRINK_OP_LODS, Form::kString, 64},
    {ZYDIS_MNEMONIC_SCASB, BRINK_OP_SCAS, Form::kString, 8},
    {ZYDIS_MNEMONIC_SCASW, BRINK_OP_SCAS, Form::kString, 16},
    {ZYDIS_MNEMONIC_SCASD, BRINK_OP_SCAS, Form::kString, 32},
    {ZYDIS_MNEMONIC_SCASQ, BRINK_OP_SCAS, Form::kString, 64},
    {ZYDIS_MNEMONIC_CMPSB, BRINK_OP_CMPS, Form::kString, 8},
    {ZYDIS_MNEMONIC_CMPSW, BRINK_OP_CMPS, Form::kString, 16},
    {ZYDIS_MNEMONIC_CMPSD, BRINK_OP_CMPS, Form::kString, 32},
    {ZYDIS_MNEMONIC_CMPSQ, BRINK_OP_CMPS, Form::kString, 64},
    {ZYDIS_MNEMONIC_SETO, BRINK_OP_SETCC, Form::kSet, 0},
    {ZYDIS_MNEMONIC_SETNO, BRINK_OP_SETCC, Form::kSet, 1},
    {ZYDIS_MNEMONIC_SETB, BRINK_OP_SETCC, Form::kSet, 2},
    {ZYDIS_MNEMONIC_SETNB, BRINK_OP_SETCC, Form::kSet, 3},
    {ZYDIS_MNEMONIC_SETZ, BRINK_OP_SETCC, Form::kSet, 4},
    {ZYDIS_MNEMONIC_SETNZ, BRINK_OP_SETCC, Form::kSet, 5},
    {ZYDIS_MNEMONIC_SETBE, BRINK_OP_SETCC, Form::kSet, 6},
    {ZYDIS_MNEMONIC_SETNBE, BRINK_OP_SETCC, Form::kSet, 7},
    {ZYDIS_MNEMONIC_SETS, BRINK_OP_SETCC, Form::kSet, 8},
    {ZYDIS_MNEMONIC_SETNS, BRINK_OP_SETCC, Form::kSet, 9},
    {ZYDIS_MNEMONIC_SETP, BRINK_OP_SETCC, Form::kSet, 10},
    {ZYDIS_MNEMONIC_SETNP, BRINK_OP_SETCC, Form::kSet, 11},
    {ZYDIS_MNEMONIC_SETL, BRINK_OP_SETCC, Form::kSet, 12},
    {ZYDIS_MNEMONIC_SETNL, BRINK_OP_SETCC, Form::kSet, 13},
    {ZYDIS_MNEMONIC_SETLE, BRINK_OP_SETCC, Form::kSet, 14},
    {ZYDIS_MNEMONIC_SETNLE, BRINK_OP_SETCC, Form::kSet, 15},
    {ZYDIS_MNEMONIC_CMOVO, BRINK_OP_CMOV, Form::kCmov, 0},
    {ZYDIS_MNEMONIC_CMOVNO, BRINK_OP_CMOV, Form::kCmov, 1},
    {ZYDIS_MNEMONIC_CMOVB, BRINK_OP_CMOV, Form::kCmov, 2},
    {ZYDIS_MNEMONIC_CMOVNB, BRINK_OP_CMOV, Form::kCmov, 3},
    {ZYDIS_MNEMONIC_CMOVZ, BRINK_OP_CMOV, Form::kCmov, 4},
    {ZYDIS_MNEMONIC_CMOVNZ, BRINK_OP_CMOV, Form::kCmov, 5},
    {ZYDIS_MNEMONIC_CMOVBE, BRINK_OP_CMOV, Form::kCmov, 6},
    {ZYDIS_MNEMONIC_CMOVNBE, BRINK_OP_CMOV, Form::kCmov, 7},
    {ZYDIS_MNEMONIC_CMOVS, BRINK_OP_CMOV, Form::kCmov, 8},
    {ZYDIS_MNEMONIC_CMOVNS, BRINK_OP_CMOV, Form::kCmov, 9},
    {ZYDIS_MNEMONIC_CMOVP, BRINK_OP_CMOV, Form::kCmov, 10},
    {ZYDIS_MNEMONIC_CMOVNP, BRINK_OP_CMOV, Form::kCmov, 11},
    {ZYDIS_MNEMONIC_CMOVL, BRINK_OP_CMOV, Form::kCmov, 12},
    {ZYDIS_MNEMONIC_CMOVNL, BRINK_OP_CMOV, Form::kCmov, 13},
    {ZYDIS_MNEMONIC_CMOVLE, BRINK_OP_CMOV, Form::kCmov, 14},
    {ZYDIS_MNEMONIC_CMOVNLE, BRINK_OP_CMOV, Form::kCmov, 15},
};

const Row* FindRow(ZydisMnemonic mnemonic) {
  static const auto index = [] {
    std::array<const Row*, ZYDIS_MNEMONIC_MAX_VALUE + 1> made{};
    for (const Row& row : kRows) made[row.mnemonic] = &row;
    return made;
  }();
  return index[mnemonic];
}

bool LiftMove(const Decoded& d, UopBuilder& b) {
  MicroOp& u = b.uop();
  const auto& src = d.operand(1);
  if (src.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && src.size == 64 && src.imm.value.s != static_cast<int32_t>(src.imm.value.s)) {
    if (!b.Dst(0, false)) return false;
    u.op = BRINK_OP_MOVABS;
    u.disp = static_cast<int32_t>(static_cast<uint32_t>(src.imm.value.u));
    u.imm = static_cast<int32_t>(src.imm.value.u >> 32);
    return true;
  }
  b.SourceSize(d.operand(0).size);
  return b.Dst(0, false) && b.Src(1);
}

bool LiftString(const Decoded& d, const Row& row, MicroOp& u) {
  if (d.insn.meta.category != ZYDIS_CATEGORY_STRINGOP || d.insn.address_width != 64) return false;
  if (d.insn.attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)) return false;
  u.sh = u.msh = static_cast<uint8_t>(64 - row.aux);
  if (d.insn.attributes & ZYDIS_ATTRIB_HAS_REP) u.aux = 1;
  if (d.insn.attributes & ZYDIS_ATTRIB_HAS_REPE) u.aux = 2;
  if (d.insn.attributes & ZYDIS_ATTRIB_HAS_REPNE) u.aux = 4;
  return true;
}

// On a CPU without the extension the prefix is ignored and the older instruction runs.
uint8_t ScanOp(const Decoded& d, uint8_t op) {
  if (op == BRINK_OP_TZCNT && !d.options.bmi1) return BRINK_OP_BSF;
  if (op == BRINK_OP_LZCNT && !d.options.lzcnt) return BRINK_OP_BSR;
  return op;
}

bool IsRegister(const Decoded& d, int i) { return d.operand(i).type == ZYDIS_OPERAND_TYPE_REGISTER; }

bool LiftRow(const Decoded& d, const Row& row, UopBuilder& b) {
  MicroOp& u = b.uop();
  u.op = row.op;
  if (row.form == Form::kString) return LiftString(d, row, u);
  if (row.form == Form::kFlags) return true;
  if (row.form == Form::kAccumulator) {
    b.Size(row.aux);
    return true;
  }
  const unsigned bits = d.operand(0).size;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64 && row.form != Form::kCmpxchgWide) return false;
  b.Size(bits);
  u.msh = u.sh;
  u.aux = row.aux;
  switch (row.form) {
    case Form::kTwo:
      return b.Dst(0, true) && b.Src(1);
    case Form::kCompare:
      return b.Dst(0, true, false) && b.Src(1);
    case Form::kMove:
      return LiftMove(d, b);
    case Form::kExtend:
      b.SourceSize(d.operand(1).size);
      return b.Dst(0, false) && b.Src(1);
    case Form::kLea:
      u.src = BRINK_WREG_MEM;
      if (!b.Dst(0, false) || !b.Memory(1, 0)) return false;
      u.flags &= static_cast<uint8_t>(~(BRINK_UOP_FS | BRINK_UOP_GS));
      u.msh = u.sh;
      return true;
    case Form::kOne:
      return b.Dst(0, true);
    case Form::kSet:
      return b.Dst(0, false);
    case Form::kCmov:
    case Form::kScan:
      u.op = ScanOp(d, row.op);
      return b.Dst(0, false) && b.Src(1);
    case Form::kShift:
      return b.Dst(0, true) && b.Src(1);
    case Form::kShiftD:
      return b.Dst(0, true) && b.Src(1) && b.Src2(2);
    case Form::kShiftX:
    case Form::kThreeRev:
      return b.Dst(0, false) && b.Src(1) && b.Src2(2);
    case Form::kWide:
      return b.Src(0);
    case Form::kImul:
      if (d.visible() == 1) {
        u.op = BRINK_OP_IMUL1;
        return b.Src(0);
      }
      return b.Dst(0, false) && b.Src(1) && b.Src2(d.visible() == 3 ? 2 : 0);
    case Form::kMulx:
    case Form::kThree:
      return b.Dst(0, false) && b.Src2(1) && b.Src(2);
    case Form::kBitTest:
      // A register bit number reaches beyond the memory operand.
      if (!IsRegister(d, 0) && IsRegister(d, 1)) return false;
      return b.Dst(0, true, row.op != BRINK_OP_BT) && b.Src(1);
    case Form::kExchange:
      return b.Dst(0, true) && b.Src(1);
    case Form::kCmpxchgWide:
      return b.Memory(0, 0);
    case Form::kBswap:
      if (bits == 16) return false;  // undefined
      return b.Dst(0, true);
    case Form::kCrc:
      b.SourceSize(d.operand(1).size);
      return b.Dst(0, true) && b.Src(1);
    default:
      return false;
  }
}

}  // namespace

bool LiftInteger(const Decoded& decoded, Insn* out) {
  const Row* row = FindRow(decoded.insn.mnemonic);
  if (!row) return false;
  UopBuilder builder(decoded, out);
  const MicroOp before = out->uop;
  if (LiftRow(decoded, *row, builder)) return true;
  out->uop = before;
  return false;
}

}  // namespace brink::walk
