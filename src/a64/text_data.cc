// Data processing on integers.
#include <algorithm>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "a64/text_parts.h"

namespace brink::a64 {
namespace {

constexpr const char* kShifts[] = {"lsl", "lsr", "asr", "ror"};
constexpr const char* kExtends[] = {"uxtb", "uxth", "uxtw", "uxtx", "sxtb", "sxth", "sxtw", "sxtx"};

std::string D(uint32_t word, Last last = Last::kZero) { return Reg(Rd(word), Bit(word, 31), last); }
std::string N(uint32_t word, Last last = Last::kZero) { return Reg(Rn(word), Bit(word, 31), last); }
std::string M(uint32_t word) { return Reg(Rm(word), Bit(word, 31)); }

const char* AddName(uint32_t word) {
  static constexpr const char* kNames[] = {"add", "adds", "sub", "subs"};
  return kNames[Bits(word, 30, 29)];
}

// The form without a result: cmn, cmp.
const char* CompareName(uint32_t word) { return Bit(word, 30) ? "cmp" : "cmn"; }
bool Compares(uint32_t word) { return Bit(word, 29) && Rd(word) == 31; }

std::string AddImmediate(uint32_t word) {
  const uint32_t imm = Bits(word, 21, 10);
  const bool shifted = Bit(word, 22);
  if (Bits(word, 30, 29) == 0 && imm == 0 && !shifted && (Rd(word) == 31 || Rn(word) == 31)) return absl::StrFormat("mov %s, %s", D(word, Last::kStack), N(word, Last::kStack));
  const std::string tail = absl::StrFormat("#%d%s", imm, shifted ? ", lsl #12" : "");
  if (Compares(word)) return absl::StrFormat("%s %s, %s", CompareName(word), N(word, Last::kStack), tail);
  return absl::StrFormat("%s %s, %s, %s", AddName(word), D(word, Bit(word, 29) ? Last::kZero : Last::kStack), N(word, Last::kStack), tail);
}

// One piece of 16 bits holds all that is not 0, or not 1: then a move of its own is what assemblers write.
bool OnePiece(uint64_t value, uint32_t width) {
  uint32_t zeros = 0, ones = 0;
  for (uint32_t at = 0; at < width; at += 16) {
    zeros += (value >> at & 0xffff) == 0;
    ones += (value >> at & 0xffff) == 0xffff;
  }
  return std::max(zeros, ones) + 1 >= width / 16;
}

std::string LogicalImmediateText(uint32_t word) {
  static constexpr const char* kNames[] = {"and", "orr", "eor", "ands"};
  const uint32_t opc = Bits(word, 30, 29), width = Bit(word, 31) ? 64 : 32;
  uint64_t value = 0;
  if (!LogicalImmediate(Bit(word, 22), Bits(word, 21, 16), Bits(word, 15, 10), width, &value)) return "";
  if (width == 32) value &= 0xffffffff;
  if (opc == 3 && Rd(word) == 31) return absl::StrFormat("tst %s, #0x%x", N(word), value);
  if (opc == 1 && Rn(word) == 31 && !OnePiece(value, width)) {
    return absl::StrFormat("mov %s, #%d", D(word, Last::kStack), width == 64 ? static_cast<int64_t>(value) : int64_t{static_cast<int32_t>(value)});
  }
  return absl::StrFormat("%s %s, %s, #0x%x", kNames[opc], D(word, opc == 3 ? Last::kZero : Last::kStack), N(word), value);
}

std::string MoveWide(uint32_t word) {
  const uint32_t opc = Bits(word, 30, 29), hw = Bits(word, 22, 21);
  const uint64_t imm = Bits(word, 20, 5);
  if (opc == 1 || (!Bit(word, 31) && hw > 1)) return "";
  const std::string shift = hw ? absl::StrFormat(", lsl #%d", hw * 16) : "";
  if (opc == 3) return absl::StrFormat("movk %s, #%d%s", D(word), imm, shift);
  const bool odd = imm == 0 && hw != 0;  // a form that no assembler would choose keeps its own name
  if (odd || (opc == 0 && !Bit(word, 31) && imm == 0xffff)) return absl::StrFormat("%s %s, #%d%s", opc ? "movz" : "movn", D(word), imm, shift);
  uint64_t value = imm << hw * 16;
  if (opc == 0) value = ~value;
  return absl::StrFormat("mov %s, #%d", D(word), Bit(word, 31) ? static_cast<int64_t>(value) : int64_t{static_cast<int32_t>(value)});
}

std::string SignedOrZeroExtend(uint32_t word, bool sign, uint32_t r, uint32_t s, uint32_t top) {
  const bool wide = Bit(word, 31);
  if (r == 0 && sign && (s == 7 || s == 15 || (s == 31 && wide))) return absl::StrFormat("%s %s, %s", s == 7 ? "sxtb" : s == 15 ? "sxth" : "sxtw", D(word), Reg(Rn(word), false));
  if (r == 0 && !sign && !wide && (s == 7 || s == 15)) return absl::StrFormat("%s %s, %s", s == 7 ? "uxtb" : "uxth", D(word), N(word));
  if (s == top) return absl::StrFormat("%s %s, %s, #%d", sign ? "asr" : "lsr", D(word), N(word), r);
  if (!sign && s + 1 == r) return absl::StrFormat("lsl %s, %s, #%d", D(word), N(word), top - s);
  if (s < r) return absl::StrFormat("%sbfiz %s, %s, #%d, #%d", sign ? "s" : "u", D(word), N(word), (top + 1 - r) & top, s + 1);
  return absl::StrFormat("%sbfx %s, %s, #%d, #%d", sign ? "s" : "u", D(word), N(word), r, s - r + 1);
}

std::string Bitfield(uint32_t word) {
  const uint32_t opc = Bits(word, 30, 29), r = Bits(word, 21, 16), s = Bits(word, 15, 10), top = Bit(word, 31) ? 63 : 31;
  if (opc == 3 || Bit(word, 22) != Bit(word, 31) || r > top || s > top) return "";
  if (opc != 1) return SignedOrZeroExtend(word, opc == 0, r, s, top);
  if (s >= r) return absl::StrFormat("bfxil %s, %s, #%d, #%d", D(word), N(word), r, s - r + 1);
  const uint32_t lsb = (top + 1 - r) & top;
  return absl::StrFormat("bfi %s, %s, #%d, #%d", D(word), N(word), lsb, s + 1);
}

std::string Extract(uint32_t word) {
  const uint32_t lsb = Bits(word, 15, 10);
  if (Bits(word, 30, 29) != 0 || Bit(word, 21) || Bit(word, 22) != Bit(word, 31) || (!Bit(word, 31) && lsb > 31)) return "";
  if (Rn(word) == Rm(word)) return absl::StrFormat("ror %s, %s, #%d", D(word), N(word), lsb);
  return absl::StrFormat("extr %s, %s, %s, #%d", D(word), N(word), M(word), lsb);
}

std::string Shifted(uint32_t word) {
  const uint32_t amount = Bits(word, 15, 10);
  const std::string shift = amount || Bits(word, 23, 22) ? absl::StrFormat(", %s #%d", kShifts[Bits(word, 23, 22)], amount) : "";
  return M(word) + shift;
}

std::string LogicalShifted(uint32_t word) {
  static constexpr const char* kNames[] = {"and", "bic", "orr", "orn", "eor", "eon", "ands", "bics"};
  if (!Bit(word, 31) && Bit(word, 15)) return "";
  const uint32_t which = Bits(word, 30, 29) << 1 | Bit(word, 21);
  const bool plain = Bits(word, 15, 10) == 0 && Bits(word, 23, 22) == 0;
  if (which == 2 && Rn(word) == 31 && plain) return absl::StrFormat("mov %s, %s", D(word), M(word));
  if (which == 3 && Rn(word) == 31) return absl::StrFormat("mvn %s, %s", D(word), Shifted(word));
  if (which == 6 && Rd(word) == 31) return absl::StrFormat("tst %s, %s", N(word), Shifted(word));
  return absl::StrFormat("%s %s, %s, %s", kNames[which], D(word), N(word), Shifted(word));
}

std::string AddShifted(uint32_t word) {
  if (Bits(word, 23, 22) == 3 || (!Bit(word, 31) && Bit(word, 15))) return "";
  if (Compares(word)) return absl::StrFormat("%s %s, %s", CompareName(word), N(word), Shifted(word));
  if (Bit(word, 30) && Rn(word) == 31) return absl::StrFormat("%s %s, %s", Bit(word, 29) ? "negs" : "neg", D(word), Shifted(word));
  return absl::StrFormat("%s %s, %s, %s", AddName(word), D(word), N(word), Shifted(word));
}

std::string AddExtended(uint32_t word) {
  const uint32_t option = Bits(word, 15, 13), amount = Bits(word, 12, 10);
  if (amount > 4 || Bits(word, 23, 22) != 0) return "";
  const bool wide = Bit(word, 31);
  std::string last = Reg(Rm(word), wide && (option & 3) == 3);
  // The extension that does nothing is a shift, where the stack pointer is there to tell this form from the other.
  const bool none = option == (wide ? 3u : 2u) && (Rn(word) == 31 || (Rd(word) == 31 && !Bit(word, 29)));
  if (!none) absl::StrAppend(&last, ", ", kExtends[option], amount ? absl::StrFormat(" #%d", amount) : "");
  else if (amount) absl::StrAppendFormat(&last, ", lsl #%d", amount);
  if (Compares(word)) return absl::StrFormat("%s %s, %s", CompareName(word), N(word, Last::kStack), last);
  return absl::StrFormat("%s %s, %s, %s", AddName(word), D(word, Bit(word, 29) ? Last::kZero : Last::kStack), N(word, Last::kStack), last);
}

std::string Carry(uint32_t word) {
  static constexpr const char* kNames[] = {"adc", "adcs", "sbc", "sbcs"};
  if (Bits(word, 15, 10) != 0) return "";
  if (Bit(word, 30) && Rn(word) == 31) return absl::StrFormat("%s %s, %s", Bit(word, 29) ? "ngcs" : "ngc", D(word), M(word));
  return absl::StrFormat("%s %s, %s, %s", kNames[Bits(word, 30, 29)], D(word), N(word), M(word));
}

std::string CondCompare(uint32_t word, bool immediate) {
  const std::string second = immediate ? absl::StrFormat("#%d", Rm(word)) : M(word);
  return absl::StrFormat("%s %s, %s, #%d, %s", Bit(word, 30) ? "ccmp" : "ccmn", N(word), second, Bits(word, 3, 0), ConditionName(Bits(word, 15, 12)));
}

std::string CondSelect(uint32_t word) {
  static constexpr const char* kNames[] = {"csel", "csinc", "csinv", "csneg"};
  const uint32_t which = Bit(word, 30) << 1 | Bit(word, 10), condition = Bits(word, 15, 12);
  if (Bit(word, 29) || Bit(word, 11)) return "";
  const bool same = Rn(word) == Rm(word) && condition < 14;
  if (same && Rn(word) == 31 && (which == 1 || which == 2)) return absl::StrFormat("%s %s, %s", which == 1 ? "cset" : "csetm", D(word), ConditionName(condition ^ 1));
  if (same && which == 3) return absl::StrFormat("cneg %s, %s, %s", D(word), N(word), ConditionName(condition ^ 1));
  if (same && which && Rn(word) != 31) return absl::StrFormat("%s %s, %s, %s", which == 1 ? "cinc" : "cinv", D(word), N(word), ConditionName(condition ^ 1));
  return absl::StrFormat("%s %s, %s, %s, %s", kNames[which], D(word), N(word), M(word), ConditionName(condition));
}

std::string OneSource(uint32_t word) {
  const uint32_t op = Bits(word, 15, 10);
  if (Bits(word, 20, 16) != 0 || op > 5 || Bit(word, 29)) return "";
  static constexpr const char* kWide[] = {"rbit", "rev16", "rev32", "rev", "clz", "cls"};
  static constexpr const char* kNarrow[] = {"rbit", "rev16", "rev", "", "clz", "cls"};
  const char* name = Bit(word, 31) ? kWide[op] : kNarrow[op];
  return *name ? absl::StrFormat("%s %s, %s", name, D(word), N(word)) : "";
}

std::string TwoSources(uint32_t word) {
  if (Bit(word, 29)) return "";
  const uint32_t op = Bits(word, 15, 10);
  switch (op) {
    case 2: return absl::StrFormat("udiv %s, %s, %s", D(word), N(word), M(word));
    case 3: return absl::StrFormat("sdiv %s, %s, %s", D(word), N(word), M(word));
    case 8:
    case 9:
    case 10:
    case 11: return absl::StrFormat("%s %s, %s, %s", kShifts[op - 8], D(word), N(word), M(word));
    default: break;
  }
  if (op >> 3 != 2 || Bit(word, 31) != ((op & 3) == 3)) return "";
  return absl::StrFormat("crc32%s%c %s, %s, %s", op & 4 ? "c" : "", "bhwx"[op & 3], Reg(Rd(word), false), Reg(Rn(word), false), M(word));
}

std::string ThreeSources(uint32_t word) {
  const uint32_t which = Bits(word, 23, 21) << 1 | Bit(word, 15);
  if (which != 0 && which != 1 && !Bit(word, 31)) return "";
  const bool zero = Ra(word) == 31;
  const std::string tail = zero ? "" : ", " + Reg(Ra(word), Bit(word, 31));
  auto narrow = [&](const char* with, const char* without) {
    return absl::StrFormat("%s %s, %s, %s%s", zero ? without : with, D(word), Reg(Rn(word), false), Reg(Rm(word), false), tail);
  };
  switch (which) {
    case 0: return absl::StrFormat("%s %s, %s, %s%s", zero ? "mul" : "madd", D(word), N(word), M(word), tail);
    case 1: return absl::StrFormat("%s %s, %s, %s%s", zero ? "mneg" : "msub", D(word), N(word), M(word), tail);
    case 2: return narrow("smaddl", "smull");
    case 3: return narrow("smsubl", "smnegl");
    case 10: return narrow("umaddl", "umull");
    case 11: return narrow("umsubl", "umnegl");
    case 4: return absl::StrFormat("smulh %s, %s, %s", D(word), N(word), M(word));
    case 12: return absl::StrFormat("umulh %s, %s, %s", D(word), N(word), M(word));
    default: return "";
  }
}

std::string PcRelative(uint32_t word, uint64_t ip) {
  const int64_t offset = SignedBits(word, 23, 5) * 4 + static_cast<int64_t>(Bits(word, 30, 29));
  constexpr uint64_t kPage = 4096;
  if (!Bit(word, 31)) return absl::StrFormat("adr %s, %s", Reg(Rd(word), true), Hex(ip + static_cast<uint64_t>(offset)));
  return absl::StrFormat("adrp %s, %s", Reg(Rd(word), true), Hex((ip & ~(kPage - 1)) + static_cast<uint64_t>(offset) * kPage));
}

}  // namespace

std::string DataText(uint32_t word, Form form, uint64_t ip) {
  switch (form) {
    case Form::kPcRelative: return PcRelative(word, ip);
    case Form::kAddSubImmediate: return AddImmediate(word);
    case Form::kLogicalImmediate: return LogicalImmediateText(word);
    case Form::kMoveWide: return MoveWide(word);
    case Form::kBitfield: return Bitfield(word);
    case Form::kExtract: return Extract(word);
    case Form::kLogicalShifted: return LogicalShifted(word);
    case Form::kAddSubShifted: return AddShifted(word);
    case Form::kAddSubExtended: return AddExtended(word);
    case Form::kAddSubCarry: return Carry(word);
    case Form::kCondCompareRegister: return CondCompare(word, false);
    case Form::kCondCompareImmediate: return CondCompare(word, true);
    case Form::kCondSelect: return CondSelect(word);
    case Form::kOneSource: return OneSource(word);
    case Form::kTwoSources: return TwoSources(word);
    case Form::kThreeSources: return ThreeSources(word);
    default: return "";
  }
}

}  // namespace brink::a64
