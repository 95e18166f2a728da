#include "a64/text.h"

#include <iterator>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "a64/text_parts.h"

namespace brink::a64 {
namespace {

std::string Target(uint32_t word, uint64_t ip, int high, int low) { return Hex(ip + static_cast<uint64_t>(SignedBits(word, high, low) * 4)); }

std::string HintText(uint32_t word) {
  switch (Bits(word, 11, 5)) {
    case 0: return "nop";
    case 1: return "yield";
    case 2: return "wfe";
    case 3: return "wfi";
    case 4: return "sev";
    case 5: return "sevl";
    case 7: return "xpaclri";
    case 24: return "paciaz";
    case 25: return "paciasp";
    case 26: return "pacibz";
    case 27: return "pacibsp";
    case 28: return "autiaz";
    case 29: return "autiasp";
    case 30: return "autibz";
    case 31: return "autibsp";
    case 32: return "bti";
    case 34: return "bti c";
    case 36: return "bti j";
    case 38: return "bti jc";
    default: return absl::StrFormat("hint #%d", Bits(word, 11, 5));
  }
}

std::string BarrierText(uint32_t word) {
  static constexpr const char* kDomains[] = {"", "oshld", "oshst", "osh", "", "nshld", "nshst", "nsh", "", "ishld", "ishst", "ish", "", "ld", "st", "sy"};
  const uint32_t domain = Bits(word, 11, 8);
  switch (Bits(word, 7, 5)) {
    case 2: return domain == 15 ? "clrex" : absl::StrFormat("clrex #%d", domain);
    case 4: return *kDomains[domain] ? absl::StrCat("dsb ", kDomains[domain]) : "";
    case 5: return *kDomains[domain] ? absl::StrCat("dmb ", kDomains[domain]) : "";
    case 6: return domain == 15 ? "isb" : "";
    default: return "";
  }
}

// The registers that programs read and write; others by their numbers.
std::string SystemRegister(uint32_t word) {
  switch (Bits(word, 20, 5)) {
    case 0xde82: return "TPIDR_EL0";
    case 0xde83: return "TPIDRRO_EL0";
    case 0xda20: return "FPCR";
    case 0xda21: return "FPSR";
    case 0xda10: return "NZCV";
    case 0xdf02: return "CNTVCT_EL0";
    case 0xdf00: return "CNTFRQ_EL0";
    case 0xd801: return "CTR_EL0";
    case 0xd807: return "DCZID_EL0";
    default: return absl::StrFormat("S%d_%d_C%d_C%d_%d", 2 + Bit(word, 19), Bits(word, 18, 16), Bits(word, 15, 12), Bits(word, 11, 8), Bits(word, 7, 5));
  }
}

std::string BranchRegisterText(uint32_t word, bool authenticated) {
  static constexpr const char* kNames[] = {"br", "blr", "ret"};
  const uint32_t which = Bits(word, 22, 21);
  const bool no_modifier = authenticated && !Bit(word, 24);
  if (which > 2 || (no_modifier && (Rd(word) != 31 || (which == 2 && Rn(word) != 31))) || (authenticated && !no_modifier && which == 2)) return "";
  if (!authenticated) return which == 2 && Rn(word) == 30 ? "ret" : absl::StrCat(kNames[which], " ", Reg(Rn(word), true));
  const char key = Bit(word, 10) ? 'b' : 'a';
  if (which == 2) return absl::StrFormat("reta%c", key);
  static constexpr const char* kAuthenticated[] = {"bra", "blra"};
  if (no_modifier) return absl::StrFormat("%s%cz %s", kAuthenticated[which], key, Reg(Rn(word), true));
  return absl::StrFormat("%s%c %s, %s", kAuthenticated[which], key, Reg(Rn(word), true), Reg(Rd(word), true, Last::kStack));
}

std::string ExceptionText(uint32_t word) {
  const uint32_t opc = Bits(word, 23, 21), kind = Bits(word, 4, 0), imm = Bits(word, 20, 5);
  static constexpr const char* kCalls[] = {"", "svc", "hvc", "smc"};
  if (opc == 0 && kind > 0 && kind < 4) return absl::StrFormat("%s #0x%x", kCalls[kind], imm);
  if (opc == 1 && kind == 0) return absl::StrFormat("brk #0x%x", imm);
  if (opc == 2 && kind == 0) return absl::StrFormat("hlt #0x%x", imm);
  return "";
}

}  // namespace

std::string Reg(uint32_t number, bool wide, Last last) {
  if (number == 31) return last == Last::kStack ? (wide ? "sp" : "wsp") : (wide ? "xzr" : "wzr");
  return absl::StrCat(wide ? "x" : "w", number);
}

std::string VectorReg(uint32_t number, uint32_t log2_size) { return absl::StrFormat("%c%d", "bhsdq"[log2_size], number); }

const char* ConditionName(uint32_t condition) {
  static constexpr const char* kNames[] = {"eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al", "nv"};
  return kNames[condition & 15];
}

std::string Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

std::string ControlText(uint32_t word, Form form, uint64_t ip) {
  const bool wide = Bit(word, 31);
  switch (form) {
    case Form::kCondBranch: return absl::StrFormat("%s.%s %s", Bit(word, 4) ? "bc" : "b", ConditionName(Bits(word, 3, 0)), Target(word, ip, 23, 5));
    case Form::kBranchImmediate: return absl::StrCat(wide ? "bl " : "b ", Target(word, ip, 25, 0));
    case Form::kCompareBranch: return absl::StrFormat("%s %s, %s", Bit(word, 24) ? "cbnz" : "cbz", Reg(Rd(word), wide), Target(word, ip, 23, 5));
    case Form::kTestBranch:
      return absl::StrFormat("%s %s, #%d, %s", Bit(word, 24) ? "tbnz" : "tbz", Reg(Rd(word), wide), Bit(word, 31) << 5 | Bits(word, 23, 19), Target(word, ip, 18, 5));
    case Form::kBranchRegister: return BranchRegisterText(word, false);
    case Form::kBranchRegisterPac: return BranchRegisterText(word, true);
    case Form::kExceptionReturn: return word == 0xd69f03e0 ? "eret" : "";
    case Form::kException: return ExceptionText(word);
    case Form::kHint: return HintText(word);
    case Form::kBarrier: return BarrierText(word);
    case Form::kMrs: return absl::StrFormat("mrs %s, %s", Reg(Rd(word), true), SystemRegister(word));
    case Form::kMsr: return absl::StrFormat("msr %s, %s", SystemRegister(word), Reg(Rd(word), true));
    default: return "";
  }
}

std::string TextOf(uint32_t word, uint64_t ip) {
  const Form form = FormOf(word);
  for (auto* part : {ControlText, DataText, MemoryText}) {
    std::string text = part(word, form, ip);
    if (!text.empty()) return text;
  }
  if (word >> 16 == 0) return absl::StrFormat("udf #%d", word);
  return absl::StrFormat(".inst 0x%08x ; %s", word, NameOf(form));
}

}  // namespace brink::a64
