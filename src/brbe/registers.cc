#include "brbe/registers.h"

#include <algorithm>
#include <cctype>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "brbe/record.h"

namespace brink::brbe {
namespace {

using enum Reset;


constexpr FieldSpec kBrbcrEl1[] = {
    {"EXCEPTION", 23, 23, kUnknown, "record exceptions taken to EL1"},
    {"ERTN", 22, 22, kUnknown, "record exception returns from EL1"},
    {"FZPSS", 9, 9, kUnknown, "freeze on a PMU snapshot (both EL1 and EL2 copies)"},
    {"FZP", 8, 8, kUnknown, "freeze when a PMU counter below MDCR_EL2.HPMN overflows"},
    {"TS", 6, 5, kUnknown, "clock of BRBTS_EL1; ignored while BRBCR_EL2.TS is not 0", "1=virtual 2=guest_physical 3=physical"},
    {"MPRED", 4, 4, kUnknown, "store the mispredict flag (filters nothing; both copies)"},
    {"CC", 3, 3, kUnknown, "store cycle counts (both copies)"},
    {"E1BRE", 1, 1, kZero, "record at EL1"},
    {"E0BRE", 0, 0, kZero, "record at EL0; ignored while HCR_EL2.TGE is 1"},
};
constexpr FieldSpec kBrbcrEl2[] = {
    {"EXCEPTION", 23, 23, kUnknown, "record exceptions taken to EL2"},
    {"ERTN", 22, 22, kUnknown, "record exception returns from EL2"},
    {"FZPSS", 9, 9, kUnknown, "freeze on a PMU snapshot (both EL1 and EL2 copies)"},
    {"FZP", 8, 8, kUnknown, "freeze when a PMU counter at or above MDCR_EL2.HPMN overflows"},
    {"TS", 6, 5, kUnknown, "clock of BRBTS_EL1; 0 leaves it to BRBCR_EL1.TS", "0=el1 1=virtual 2=guest_physical 3=physical"},
    {"MPRED", 4, 4, kUnknown, "store the mispredict flag (filters nothing; both copies)"},
    {"CC", 3, 3, kUnknown, "store cycle counts (both copies)"},
    {"E2BRE", 1, 1, kZero, "record at EL2"},
    {"E0HBRE", 0, 0, kZero, "record at EL0; ignored while HCR_EL2.TGE is 0"},
};
constexpr FieldSpec kBrbfcr[] = {
    {"BANK", 29, 28, kUnknown, "records that the registers show", "0=records_0_31 1=records_32_63"},
    {"CONDDIR", 22, 22, kUnknown, "match conditional direct branches"},
    {"DIRCALL", 21, 21, kUnknown, "match direct calls"},
    {"INDCALL", 20, 20, kUnknown, "match indirect calls"},
    {"RTN", 19, 19, kUnknown, "match function returns"},
    {"INDIRECT", 18, 18, kUnknown, "match indirect branches without link"},
    {"DIRECT", 17, 17, kUnknown, "match unconditional direct branches without link"},
    {"EnI", 16, 16, kUnknown, "0 = record what matches, 1 = record what does not", "0=include 1=exclude"},
    {"PAUSED", 7, 7, kUnknown, "recording is paused; set by a freeze or by software, cleared by software only"},
    {"LASTFAILED", 6, 6, kUnknown, "a transaction failed since the last record (FEAT_TME; RES0 in the newest text)"},
};
constexpr FieldSpec kBrbidr0[] = {
    {"CC", 15, 12, kNone, "size of the cycle counter", "5=20_bits"},
    {"FORMAT", 11, 8, kNone, "format of the records", "0=format_0"},
    {"NUMREC", 7, 0, kNone, "number of records", "8=8 16=16 32=32 64=64"},
};
constexpr FieldSpec kBrbinf[] = {
    {"CCU", 46, 46, kUnknown, "the cycle count is not known (a status, not a control)"},
    {"CC_E", 45, 40, kUnknown, "exponent of the cycle count"},
    {"CC_M", 39, 32, kUnknown, "mantissa of the cycle count"},
    {"LASTFAILED", 17, 17, kUnknown, "a transaction failed before this record (FEAT_TME)"},
    {"T", 16, 16, kUnknown, "inside a transaction (FEAT_TME)"},
    {"TYPE", 13, 8, kUnknown, "what the record is about",
     "0=direct 1=indirect 2=direct_call 3=indirect_call 5=return 7=exception_return 8=conditional 33=debug_halt 34=call 35=trap 36=serror 38=inst_debug "
     "39=data_debug 42=alignment 43=inst_fault 44=data_fault 46=irq 47=fiq 48=impdef_el3 57=debug_exit"},
    {"EL", 7, 6, kUnknown, "exception level of the target", "0=el0 1=el1 2=el2 3=el3"},
    {"MPRED", 5, 5, kUnknown, "mispredicted; 0 = predicted or not captured"},
    {"VALID", 1, 0, kUnknown, "which half is there", "0=invalid 1=target_only 2=source_only 3=complete"},
};
constexpr FieldSpec kAddress[] = {{"ADDRESS", 63, 0, kUnknown, "virtual address"}};
constexpr FieldSpec kTimestamp[] = {{"TS", 63, 0, kUnknown, "time of the freeze, of the whole buffer"}};
// Registers that decide about BRBE from outside: only the fields that matter here, the others are kept as `other`.
constexpr FieldSpec kHcr[] = {{"E2H", 34, 34, kNone, "the host runs at EL2 (VHE)"},
                              {"TGE", 27, 27, kNone, "EL0 belongs to EL2"},
                              {"NV2", 45, 45, kNone, "nested virtualisation through memory"},
                              {"NV1", 43, 43, kNone, "nested virtualisation, EL1 registers"},
                              {"NV", 42, 42, kNone, "nested virtualisation"}};
constexpr FieldSpec kMdcr3[] = {{"SBRBE", 33, 32, kNone, "who may use BRBE below EL3", "0=nobody 1=non_secure 2=nobody_too 3=all"},
                                {"E3BREC", 38, 38, kNone, "recording at EL3 is on where it differs from E3BREW"},
                                {"E3BREW", 37, 37, kNone, "recording at EL3 is on where it differs from E3BREC"}};
constexpr FieldSpec kScr[] = {{"NS", 0, 0, kNone, "below EL3 is Non-secure"}};
constexpr FieldSpec kHdfgr[] = {{"nBRBDATA", 61, 61, kNone, "1 = the record registers do not trap to EL2"},
                                {"nBRBCTL", 60, 60, kNone, "1 = BRBCR, BRBFCR do not trap to EL2"},
                                {"nBRBIDR", 59, 59, kNone, "1 = BRBIDR0 does not trap to EL2"}};
constexpr FieldSpec kHdfgw[] = {{"nBRBDATA", 61, 61, kNone, "1 = writes of the record registers do not trap to EL2"},
                                {"nBRBCTL", 60, 60, kNone, "1 = writes of BRBCR, BRBFCR do not trap to EL2"}};
constexpr FieldSpec kHfgitr[] = {{"nBRBIALL", 56, 56, kNone, "1 = BRB IALL does not trap to EL2"},
                                 {"nBRBINJ", 55, 55, kNone, "1 = BRB INJ does not trap to EL2"}};
constexpr FieldSpec kDfr0[] = {{"BRBE", 55, 52, kNone, "level of BRBE", "0=none 1=FEAT_BRBE 2=FEAT_BRBEv1p1"}};
constexpr FieldSpec kMdcr2[] = {{"HPMN", 4, 0, kNone, "PMU counters below this belong to EL1 and EL0"}};

constexpr RegisterSpec kRegisters[] = {
    {"BRBCR_EL1", "S2_1_C9_C0_0", kBrbcrEl1},  {"BRBCR_EL2", "S2_4_C9_C0_0", kBrbcrEl2},
    {"BRBCR_EL12", "S2_5_C9_C0_0", kBrbcrEl1}, {"BRBFCR_EL1", "S2_1_C9_C0_1", kBrbfcr},
    {"BRBTS_EL1", "S2_1_C9_C0_2", kTimestamp}, {"BRBIDR0_EL1", "S2_1_C9_C2_0", kBrbidr0},
    {"BRBINFINJ_EL1", "S2_1_C9_C1_0", kBrbinf}, {"BRBSRCINJ_EL1", "S2_1_C9_C1_1", kAddress},
    {"BRBTGTINJ_EL1", "S2_1_C9_C1_2", kAddress}, {"BRBINF_EL1", "", kBrbinf},
    {"BRBSRC_EL1", "", kAddress},              {"BRBTGT_EL1", "", kAddress},
    {"HCR_EL2", "S3_4_C1_C1_0", kHcr},         {"MDCR_EL2", "S3_4_C1_C1_1", kMdcr2},
    {"MDCR_EL3", "S3_6_C1_C3_1", kMdcr3},      {"SCR_EL3", "S3_6_C1_C1_0", kScr},
    {"HDFGRTR_EL2", "S3_4_C3_C1_4", kHdfgr},   {"HDFGWTR_EL2", "S3_4_C3_C1_5", kHdfgw},
    {"HFGITR_EL2", "S3_4_C1_C1_6", kHfgitr},   {"ID_AA64DFR0_EL1", "S3_0_C0_C5_0", kDfr0},
};

std::string Upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

uint64_t MaskOf(const FieldSpec& f) { return (f.hi - f.lo == 63 ? ~uint64_t{0} : (uint64_t{1} << (f.hi - f.lo + 1)) - 1); }

// The registers of the environment have many other fields, which are none of our business.
bool OwnRegister(const RegisterSpec& spec) { return std::string_view(spec.name).starts_with("BRB"); }

std::string WordFor(const FieldSpec& field, uint64_t value) {
  for (std::string_view pair : Split(field.words, ' ')) {
    size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == std::to_string(value)) return std::string(pair.substr(equals + 1));
  }
  return "";
}

std::optional<uint64_t> ValueOfWord(const FieldSpec& field, std::string_view word) {
  for (std::string_view pair : Split(field.words, ' ')) {
    size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(equals + 1) == word) return *ParseUint(pair.substr(0, equals));
  }
  return std::nullopt;
}

}  // namespace

uint64_t RegisterSpec::FieldMask() const {
  uint64_t mask = 0;
  for (const FieldSpec& f : fields) mask |= f.Mask();
  return mask;
}

const FieldSpec* RegisterSpec::FindField(std::string_view field) const {
  auto it = std::find_if(fields.begin(), fields.end(), [&](const FieldSpec& f) { return Upper(f.name) == Upper(field); });
  return it == fields.end() ? nullptr : &*it;
}

const RegisterSpec* FindRegister(std::string_view name) {
  std::string upper = Upper(name);
  for (const char* prefix : {"BRBINF", "BRBSRC", "BRBTGT"}) {
    if (!upper.starts_with(prefix)) continue;
    std::string_view rest = std::string_view(upper).substr(6);
    size_t digits = 0;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits]))) ++digits;
    if (digits > 0 && digits <= 2 && *ParseUint(rest.substr(0, digits)) < 32 && (rest.substr(digits) == "_EL1" || rest.size() == digits)) {
      upper = std::string(prefix) + "_EL1";
    }
  }
  for (const RegisterSpec& spec : kRegisters) {
    if (upper == spec.name || (upper + "_EL1" == spec.name)) return &spec;
  }
  return nullptr;
}

std::vector<std::string> RegisterNames() {
  std::vector<std::string> names;
  for (const RegisterSpec& spec : kRegisters) names.emplace_back(spec.name);
  return names;
}

std::optional<uint64_t> Decoded::Field(std::string_view name) const {
  for (const FieldValue& f : fields) {
    if (name == f.spec->name) return f.value;
  }
  return std::nullopt;
}

Decoded DecodeRegister(const RegisterSpec& spec, uint64_t value) {
  Decoded decoded{&spec, value, {}, value & ~spec.FieldMask(), {}};
  for (const FieldSpec& f : spec.fields) {
    FieldValue field{&f, value >> f.lo & MaskOf(f), ""};
    field.word = WordFor(f, field.value);
    if (*f.words && field.word.empty()) decoded.problems.push_back(absl::StrFormat("%s = %d is reserved", f.name, field.value));
    decoded.fields.push_back(std::move(field));
  }
  if (decoded.reserved && OwnRegister(spec)) {
    std::string problem = absl::StrFormat("reserved bits are set: 0x%x", decoded.reserved);
    if (std::string_view(spec.name) == "BRBFCR_EL1" && decoded.reserved >> 32) {
      problem += " (the type filter is in bits 22:17 of the low word, not in the high word)";
    }
    decoded.problems.push_back(problem);
  }
  if (std::string_view(spec.name) == "BRBINF_EL1") {
    Record record = DecodeRecord(value, 0, 0);
    record.reserved = 0;  // said above
    for (std::string& problem : RecordProblems(record, {})) decoded.problems.push_back(std::move(problem));
  }
  return decoded;
}

uint64_t EncodeRegister(const Decoded& decoded) {
  uint64_t value = decoded.reserved;
  for (const FieldValue& f : decoded.fields) value |= (f.value & MaskOf(*f.spec)) << f.spec->lo;
  return value;
}

StatusOr<uint64_t> EncodeRegister(const RegisterSpec& spec, std::span<const std::pair<std::string, std::string>> fields) {
  uint64_t value = 0;
  for (const auto& [name, text] : fields) {
    const FieldSpec* it = spec.FindField(name);
    if (!it) {
      std::vector<std::string> names;
      for (const FieldSpec& f : spec.fields) names.emplace_back(f.name);
      auto nearest = NearestNames(Upper(name), names, 1);
      std::string all;
      for (const std::string& n : names) all += (all.empty() ? "" : " ") + n;
      return InvalidArgument(absl::StrFormat("%s has no field '%s'%s (fields: %s)", spec.name, EscapeForTerminal(name),
                                             nearest.empty() ? "" : "; did you mean " + nearest[0] + "?", all));
    }
    std::optional<uint64_t> number = text.empty() ? std::optional<uint64_t>(1) : ValueOfWord(*it, text);
    if (!number) {
      auto parsed = ParseUint(text);
      if (!parsed.ok()) return InvalidArgument(absl::StrFormat("%s.%s: '%s' is neither a number%s%s", spec.name, it->name, EscapeForTerminal(text), *it->words ? " nor one of: " : "", it->words));
      number = *parsed;
    }
    if (*number > MaskOf(*it)) return InvalidArgument(absl::StrFormat("%s.%s holds 0..%d, not %d", spec.name, it->name, MaskOf(*it), *number));
    value = (value & ~(MaskOf(*it) << it->lo)) | *number << it->lo;
  }
  return value;
}

}  // namespace brink::brbe
