// Loads and stores of integer and vector registers, atomics.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "a64/text_parts.h"

namespace brink::a64 {
namespace {

std::string Base(uint32_t word) { return Reg(Rn(word), true, Last::kStack); }

std::string Prefetch(uint32_t which) {
  static constexpr const char* kTypes[] = {"pld", "pli", "pst"};
  if (which >> 3 == 3 || (which >> 1 & 3) == 3) return absl::StrFormat("#%d", which);
  return absl::StrFormat("%sl%d%s", kTypes[which >> 3], (which >> 1 & 3) + 1, which & 1 ? "strm" : "keep");
}

// What a load or store of one register is called, and the register.
struct Access {
  std::string name;      // "" none; without the u of unscaled forms
  std::string reg;
  uint32_t log2_size = 0;
};

Access AccessOf(uint32_t word, const char* load, const char* store) {
  const uint32_t size = Bits(word, 31, 30), opc = Bits(word, 23, 22);
  if (Bit(word, 26)) {
    const uint32_t log2_size = size | (opc & 2) << 1;
    if (log2_size > 4) return {};
    return {opc & 1 ? load : store, VectorReg(Rd(word), log2_size), log2_size};
  }
  static constexpr const char* kSuffixes[] = {"b", "h", "", ""};
  if (opc < 2) return {absl::StrCat(opc ? load : store, kSuffixes[size]), Reg(Rd(word), size == 3), size};
  if (size == 3 || (size == 2 && opc == 3)) return {};
  static constexpr const char* kSigned[] = {"sb", "sh", "sw"};
  return {absl::StrCat(load, kSigned[size]), Reg(Rd(word), opc == 2), size};
}

bool IsPrefetch(uint32_t word) { return Bits(word, 31, 30) == 3 && !Bit(word, 26) && Bits(word, 23, 22) == 2; }

std::string WithOffset(const std::string& base, int64_t offset) { return offset ? absl::StrFormat("[%s, #%d]", base, offset) : absl::StrFormat("[%s]", base); }

std::string UnsignedOffset(uint32_t word) {
  const uint32_t imm = Bits(word, 21, 10);
  if (IsPrefetch(word)) return absl::StrFormat("prfm %s, %s", Prefetch(Rd(word)), WithOffset(Base(word), int64_t{imm} * 8));
  Access access = AccessOf(word, "ldr", "str");
  if (access.name.empty()) return "";
  return absl::StrFormat("%s %s, %s", access.name, access.reg, WithOffset(Base(word), int64_t{imm} << access.log2_size));
}

std::string Unscaled(uint32_t word, Form form) {
  const int64_t imm = SignedBits(word, 20, 12);
  const bool plain = form == Form::kUnscaled, unprivileged = form == Form::kUnprivileged;
  if (IsPrefetch(word)) return plain ? absl::StrFormat("prfum %s, %s", Prefetch(Rd(word)), WithOffset(Base(word), imm)) : "";
  if (unprivileged && Bit(word, 26)) return "";
  Access access = AccessOf(word, plain ? "ldur" : unprivileged ? "ldtr" : "ldr", plain ? "stur" : unprivileged ? "sttr" : "str");
  if (access.name.empty()) return "";
  const std::string head = access.name + " " + access.reg + ", ";
  if (form == Form::kPost) return absl::StrFormat("%s[%s], #%d", head, Base(word), imm);
  if (form == Form::kPre) return absl::StrFormat("%s[%s, #%d]!", head, Base(word), imm);
  return head + WithOffset(Base(word), imm);
}

std::string RegisterOffset(uint32_t word) {
  static constexpr const char* kExtends[] = {"", "", "uxtw", "lsl", "", "", "sxtw", "sxtx"};
  const uint32_t option = Bits(word, 15, 13);
  if (!(option & 2)) return "";
  const bool prefetch = IsPrefetch(word);
  Access access = prefetch ? Access{"prfm", Prefetch(Rd(word)), 3} : AccessOf(word, "ldr", "str");
  if (access.name.empty() || (prefetch && Rd(word) >> 3 == 3)) return "";
  std::string index = Reg(Rm(word), option & 1);
  const bool scaled = Bit(word, 12);
  if (option != 3 || scaled) absl::StrAppend(&index, ", ", kExtends[option]);
  if (scaled) absl::StrAppendFormat(&index, " #%d", access.log2_size);
  return absl::StrFormat("%s %s, [%s, %s]", access.name, access.reg, Base(word), index);
}

std::string Literal(uint32_t word, uint64_t ip) {
  const std::string target = Hex(ip + static_cast<uint64_t>(SignedBits(word, 23, 5) * 4));
  const uint32_t opc = Bits(word, 31, 30);
  if (Bit(word, 26)) return opc == 3 ? "" : absl::StrFormat("ldr %s, %s", VectorReg(Rd(word), opc + 2), target);
  if (opc == 3) return absl::StrFormat("prfm %s, %s", Prefetch(Rd(word)), target);
  return absl::StrFormat("%s %s, %s", opc == 2 ? "ldrsw" : "ldr", Reg(Rd(word), opc > 0), target);
}

std::string Pair(uint32_t word) {
  const uint32_t opc = Bits(word, 31, 30), mode = Bits(word, 24, 23);
  const bool vector = Bit(word, 26), load = Bit(word, 22);
  if (opc == 3 || (!vector && opc == 1 && (!load || mode == 0))) return "";
  const uint32_t log2_size = vector ? opc + 2 : opc == 2 ? 3 : 2;
  auto reg = [&](uint32_t number) { return vector ? VectorReg(number, log2_size) : Reg(number, opc != 0); };
  const int64_t imm = SignedBits(word, 21, 15) << log2_size;
  std::string head = absl::StrFormat("%s%s %s, %s, ", load ? "ld" : "st", mode == 0 ? "np" : !vector && opc == 1 ? "psw" : "p", reg(Rd(word)), reg(Ra(word)));
  if (mode == 1) return absl::StrFormat("%s[%s], #%d", head, Base(word), imm);
  if (mode == 3) return absl::StrFormat("%s[%s, #%d]!", head, Base(word), imm);
  return head + WithOffset(Base(word), imm);
}

std::string Exclusive(uint32_t word) {
  const uint32_t size = Bits(word, 31, 30);
  const bool ordered = Bit(word, 23), load = Bit(word, 22), pair = Bit(word, 21), release = Bit(word, 15);
  static constexpr const char* kSuffixes[] = {"b", "h", "", ""};
  const bool wide = size == 3;
  const std::string rt = Reg(Rd(word), wide), base = absl::StrFormat("[%s]", Base(word));
  if (!ordered && pair && size >= 2) {
    const std::string both = rt + ", " + Reg(Ra(word), wide);
    if (load) return Rm(word) != 31 ? "" : absl::StrFormat("%s %s, %s", release ? "ldaxp" : "ldxp", both, base);
    return absl::StrFormat("%s %s, %s, %s", release ? "stlxp" : "stxp", Reg(Rm(word), false), both, base);
  }
  if (Ra(word) != 31) return "";
  if (ordered && pair) return absl::StrFormat("cas%s%s%s %s, %s, %s", load ? "a" : "", release ? "l" : "", kSuffixes[size], Reg(Rm(word), wide), rt, base);
  if (pair) return "";
  if (ordered) return Rm(word) != 31 || !release ? "" : absl::StrFormat("%s%s %s, %s", load ? "ldar" : "stlr", kSuffixes[size], rt, base);
  if (load) return Rm(word) != 31 ? "" : absl::StrFormat("%s%s %s, %s", release ? "ldaxr" : "ldxr", kSuffixes[size], rt, base);
  return absl::StrFormat("%s%s %s, %s, %s", release ? "stlxr" : "stxr", kSuffixes[size], Reg(Rm(word), false), rt, base);
}

std::string Atomic(uint32_t word) {
  static constexpr const char* kNames[] = {"add", "clr", "eor", "set", "smax", "smin", "umax", "umin"};
  static constexpr const char* kSuffixes[] = {"b", "h", "", ""};
  const uint32_t size = Bits(word, 31, 30), which = Bits(word, 14, 12);
  const bool acquire = Bit(word, 23), release = Bit(word, 22), swap = Bit(word, 15);
  if (Bit(word, 26)) return "";
  const std::string rs = Reg(Rm(word), size == 3), rt = Reg(Rd(word), size == 3), base = absl::StrFormat("[%s]", Base(word));
  if (swap && which == 4) return acquire && !release && Rm(word) == 31 ? absl::StrFormat("ldapr%s %s, %s", kSuffixes[size], rt, base) : "";
  if (swap && which != 0) return "";
  const std::string order = absl::StrCat(acquire ? "a" : "", release ? "l" : "", kSuffixes[size]);
  if (swap) return absl::StrFormat("swp%s %s, %s, %s", order, rs, rt, base);
  if (Rd(word) == 31 && !acquire) return absl::StrFormat("st%s%s %s, %s", kNames[which], order, rs, base);
  return absl::StrFormat("ld%s%s %s, %s, %s", kNames[which], order, rs, rt, base);
}

}  // namespace

std::string MemoryText(uint32_t word, Form form, uint64_t ip) {
  switch (form) {
    case Form::kUnsignedOffset: return UnsignedOffset(word);
    case Form::kUnscaled:
    case Form::kUnprivileged:
    case Form::kPre:
    case Form::kPost: return Unscaled(word, form);
    case Form::kRegisterOffset: return RegisterOffset(word);
    case Form::kLiteral: return Literal(word, ip);
    case Form::kPair: return Pair(word);
    case Form::kExclusive: return Exclusive(word);
    case Form::kAtomic: return Atomic(word);
    default: return "";
  }
}

}  // namespace brink::a64
