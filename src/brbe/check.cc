#include "brbe/check.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "brbe/registers.h"

namespace brink::brbe {
namespace {

using Level = Finding::Level;
// Three-valued: not known is nullopt.
using Maybe = std::optional<bool>;

std::string YesNo(bool yes) { return yes ? "recorded" : "not recorded (prohibited region)"; }

class Checker {
 public:
  explicit Checker(const Environment& env) : env_(env) {}

  std::vector<Finding> Run() {
    Registers();
    Identity();
    Access();
    Levels();
    Kinds();
    Exceptions();
    Flags();
    Freeze();
    PausedAndBank();
    ResetState();
    Order();
    Nested();
    return std::move(findings_);
  }

 private:
  void Add(Level level, std::string topic, std::string text, std::vector<std::string> hangs_on = {}) {
    findings_.push_back({level, std::move(topic), std::move(text), std::move(hangs_on)});
  }

  Maybe Bit(const char* reg, const char* field) const {
    auto value = Value(reg, field);
    return value ? Maybe(*value != 0) : std::nullopt;
  }
  std::optional<uint64_t> Value(const char* reg, const char* field) const {
    return env_.Field(reg, field);
  }
  bool NoEl2() const { return env_.has_el2 && !*env_.has_el2; }
  bool NoEl3() const { return env_.has_el3 && !*env_.has_el3; }

  void Registers() {
    for (const auto& [name, given] : env_.registers) {
      const auto decoded = DecodeRegister(*FindRegister(name), given.value);
      for (const std::string& problem : decoded.problems) {
        const std::string field = problem.substr(0, problem.find(' '));
        if (!env_.Field(name, field) && decoded.Field(field)) continue;  // a field that was not given
        if (!problem.starts_with("TS")) {
          Add(Level::kProblem, "registers", name + ": " + problem);
          continue;
        }
        // TS of the EL1 copy does not count while the EL2 copy has one.
        const auto el2 = NoEl2() ? std::optional<uint64_t>(0) : Value("BRBCR_EL2", "TS");
        if (!el2) Add(Level::kInfo, "registers", name + ": " + problem + ", unless BRBCR_EL2.TS chooses the clock", {"BRBCR_EL2.TS"});
        if (el2 && *el2 == 0) Add(Level::kProblem, "registers", name + ": " + problem);
      }
    }
  }

  void Identity() {
    if (auto brbe = Value("ID_AA64DFR0_EL1", "BRBE")) {
      Add(*brbe ? Level::kOk : Level::kProblem, "feature", *brbe == 0 ? "this CPU has no BRBE (ID_AA64DFR0_EL1.BRBE = 0)" : *brbe == 1 ? "FEAT_BRBE" : "FEAT_BRBEv1p1: EL3 can be recorded too");
    }
    auto idr = env_.Get("BRBIDR0_EL1");
    if (!idr) return;
    Decoded decoded = DecodeRegister(*FindRegister("BRBIDR0_EL1"), *idr);
    const bool linux_takes_it = decoded.problems.empty();
    Add(linux_takes_it ? Level::kOk : Level::kProblem, "feature",
        linux_takes_it ? absl::StrFormat("%d records in %d bank(s), 20-bit cycle counter, format 0", *idr & 0xff, (*idr & 0xff) > 32 ? 2 : 1)
                       : "BRBIDR0_EL1 holds values that Linux does not accept: it ignores BRBE");
  }

  void Access() {
    if (NoEl3()) {
      Add(Level::kOk, "access", "no EL3: nothing above EL2 stops accesses");
    } else {
      auto sbrbe = Value("MDCR_EL3", "SBRBE");
      Maybe ns = Bit("SCR_EL3", "NS");
      if (!sbrbe) {
        Add(Level::kInfo, "access", "whether EL3 lets EL2 and EL1 use BRBE is not known", {"MDCR_EL3.SBRBE"});
      } else if (*sbrbe == 3) {
        Add(Level::kOk, "access", "EL3 allows BRBE in both security states (SBRBE = 3)");
      } else if (*sbrbe == 1) {
        if (!ns) Add(Level::kInfo, "access", "SBRBE = 1: allowed in Non-secure state; Secure accesses trap and nothing is recorded there", {"SCR_EL3.NS"});
        else if (*ns) Add(Level::kOk, "access", "SBRBE = 1 and Non-secure: allowed");
        else Add(Level::kProblem, "access", "SBRBE = 1 and Secure: accesses trap to EL3 or are UNDEFINED, nothing is recorded");
      } else {
        Add(Level::kProblem, "access", absl::StrFormat("SBRBE = %d: accesses from EL1 and EL2 trap to EL3 or are UNDEFINED%s; firmware must set it to 1 or 3", *sbrbe, *sbrbe == 0 ? ", nothing is recorded below EL3" : ""));
      }
    }
    if (NoEl2()) return;
    Trap("HDFGRTR_EL2", "nBRBDATA", "reads of BRBINF, BRBSRC, BRBTGT from EL1");
    Trap("HDFGRTR_EL2", "nBRBCTL", "reads of BRBCR_EL1, BRBFCR_EL1 from EL1");
    Trap("HDFGRTR_EL2", "nBRBIDR", "reads of BRBIDR0_EL1 from EL1");
    Trap("HDFGWTR_EL2", "nBRBDATA", "writes of the injection registers from EL1");
    Trap("HDFGWTR_EL2", "nBRBCTL", "writes of BRBCR_EL1, BRBFCR_EL1 from EL1");
    Trap("HFGITR_EL2", "nBRBIALL", "BRB IALL from EL1");
    Trap("HFGITR_EL2", "nBRBINJ", "BRB INJ from EL1");
  }

  void Trap(const char* reg, const char* field, const char* what) {
    Maybe open = Bit(reg, field);
    std::string name = std::string(reg) + "." + field;
    if (!open) {
      Add(Level::kInfo, "traps", std::string(what) + " may trap to EL2", {name});
    } else if (!*open) {
      Add(Level::kProblem, "traps", std::string(what) + " trap to EL2 (" + name + " = 0)");
    }
  }

  // What MDCR_EL3 and the security state say about recording below EL3.
  Maybe AllowedBelowEl3() const {
    if (NoEl3()) return true;
    auto sbrbe = Value("MDCR_EL3", "SBRBE");
    if (!sbrbe) return std::nullopt;
    if (*sbrbe == 0) return false;
    if (*sbrbe == 1) return Bit("SCR_EL3", "NS");
    return true;
  }

  void Level_(const char* el, Maybe enabled, const std::string& by, std::vector<std::string> missing) {
    Maybe below = AllowedBelowEl3();
    if (below && !*below) return Add(Level::kProblem, el, "not recorded: EL3 forbids it (MDCR_EL3.SBRBE)");
    if (!enabled) return Add(Level::kInfo, el, "not known", std::move(missing));
    if (!*enabled) return Add(Level::kInfo, el, YesNo(false) + " by " + by);
    std::vector<std::string> hangs;
    if (!below) hangs.push_back(Value("MDCR_EL3", "SBRBE").value_or(3) == 1 ? "SCR_EL3.NS" : "MDCR_EL3.SBRBE");
    Add(Level::kOk, el, YesNo(true) + " by " + by, std::move(hangs));
  }

  void Levels() {
    Maybe tge = NoEl2() ? Maybe(false) : Bit("HCR_EL2", "TGE");
    Maybe e0 = Bit("BRBCR_EL1", "E0BRE"), e0h = Bit("BRBCR_EL2", "E0HBRE");
    if (tge) {
      Level_("EL0", *tge ? e0h : e0, *tge ? "BRBCR_EL2.E0HBRE (HCR_EL2.TGE = 1, E0BRE is ignored)" : "BRBCR_EL1.E0BRE (TGE = 0, E0HBRE is ignored)", {*tge ? "BRBCR_EL2" : "BRBCR_EL1"});
    } else if (e0 && e0h && *e0 == *e0h) {
      Level_("EL0", e0, "E0BRE and E0HBRE alike, whatever HCR_EL2.TGE is", {});
    } else {
      auto word = [](Maybe m) { return m ? (*m ? "recorded" : "not recorded") : "not known"; };
      Add(Level::kInfo, "EL0", absl::StrFormat("with HCR_EL2.TGE = 0: %s (E0BRE); with TGE = 1: %s (E0HBRE)", word(e0), word(e0h)), {"HCR_EL2.TGE"});
    }
    Level_("EL1", Bit("BRBCR_EL1", "E1BRE"), "BRBCR_EL1.E1BRE", {"BRBCR_EL1"});
    if (!NoEl2()) Level_("EL2", Bit("BRBCR_EL2", "E2BRE"), "BRBCR_EL2.E2BRE (the host under VHE; guests are E1BRE and E0BRE)", {"BRBCR_EL2"});
    if (!NoEl3()) El3();
  }

  void El3() {
    Maybe v1p1 = env_.v1p1;
    if (auto brbe = Value("ID_AA64DFR0_EL1", "BRBE")) v1p1 = *brbe >= 2;
    if (v1p1 && !*v1p1) return Add(Level::kInfo, "EL3", "never recorded: that needs FEAT_BRBEv1p1");
    auto c = Bit("MDCR_EL3", "E3BREC"), w = Bit("MDCR_EL3", "E3BREW");
    std::vector<std::string> missing;
    if (!v1p1) missing.push_back("feature level");
    if (!c || !w) missing.push_back("MDCR_EL3.E3BREC, E3BREW");
    if (c && w && *c == *w) return Add(Level::kInfo, "EL3", "not recorded: MDCR_EL3.E3BREC and E3BREW are equal");
    if (!missing.empty()) return Add(Level::kInfo, "EL3", "not known", missing);
    Add(Level::kOk, "EL3", "recorded: E3BREC and E3BREW differ");
  }

  void Kinds() {
    auto fcr = env_.Get("BRBFCR_EL1");
    if (!fcr) return Add(Level::kInfo, "kinds", "not known", {"BRBFCR_EL1"});
    struct Name {
      uint64_t bit;
      const char* name;
    };
    constexpr Name kNames[] = {{kFcrCondDir, "conditional"}, {kFcrDirCall, "direct call"}, {kFcrIndCall, "indirect call"},
                               {kFcrRtn, "return"},          {kFcrIndirect, "indirect jump"}, {kFcrDirect, "direct jump"}};
    const bool exclude = *fcr & kFcrEnI;
    std::string on, off;
    for (const Name& n : kNames) {
      std::string& list = ((*fcr & n.bit) != 0) != exclude ? on : off;
      list += (list.empty() ? "" : ", ") + std::string(n.name);
    }
    std::string how = exclude ? " (EnI = 1: what matches is left out)" : " (EnI = 0: only what matches)";
    if (on.empty()) return Add(Level::kWarning, "kinds", "no branch is recorded, only exceptions and exception returns" + how);
    Add(Level::kOk, "kinds", "recorded: " + on + (off.empty() ? "" : "; not recorded: " + off) + how);
    if ((*fcr & kFcrKinds) && !off.empty() && !exclude && !(*fcr & (kFcrDirCall | kFcrCondDir))) {
      Add(Level::kWarning, "kinds", "DIRCALL and CONDDIR are off: direct calls and conditional branches are missing, so this is not all control flow");
    }
  }

  void Exceptions() {
    for (const char* reg : {"BRBCR_EL1", "BRBCR_EL2"}) {
      if (NoEl2() && std::string_view(reg) == "BRBCR_EL2") continue;
      const char* el = std::string_view(reg) == "BRBCR_EL1" ? "EL1" : "EL2";
      auto e = Bit(reg, "EXCEPTION"), r = Bit(reg, "ERTN");
      if (!e || !r) {
        Add(Level::kInfo, "exceptions", absl::StrFormat("to and from %s: not known", el), {reg});
        continue;
      }
      Add(Level::kOk, "exceptions", absl::StrFormat("exceptions to %s %s, exception returns from %s %s (BRBFCR does not filter them; a prohibited side is left out: half records)", el,
                                                    *e ? "recorded" : "not recorded", el, *r ? "recorded" : "not recorded"));
    }
  }

  void BothCopies(const char* field, const char* what, const char* absent) {
    Maybe el1 = Bit("BRBCR_EL1", field), el2 = NoEl2() ? Maybe(true) : Bit("BRBCR_EL2", field);
    if ((el1 && !*el1) || (el2 && !*el2)) {
      const bool half = !NoEl2() && el1 && el2 && *el1 != *el2;
      return Add(half ? Level::kWarning : Level::kInfo, "flags", absl::StrFormat("%s: off, %s%s", what, absent, half ? absl::StrFormat("; %s is set in one copy only and needs both", field) : ""));
    }
    std::vector<std::string> missing;
    if (!el1) missing.push_back("BRBCR_EL1");
    if (!el2) missing.push_back("BRBCR_EL2");
    Add(missing.empty() ? Level::kOk : Level::kInfo, "flags", std::string(what) + (missing.empty() ? ": on" : ": on if the other copy agrees"), missing);
  }

  void Flags() {
    BothCopies("CC", "cycle counts", "CCU is 1 in every record");
    BothCopies("MPRED", "mispredict flag", "MPRED is 0 in every record and means nothing");
    auto el2 = NoEl2() ? std::optional<uint64_t>(0) : Value("BRBCR_EL2", "TS");
    auto el1 = Value("BRBCR_EL1", "TS");
    constexpr const char* kClocks[] = {"none", "virtual", "guest physical", "physical"};
    if (el2 && *el2) return Add(Level::kInfo, "timestamp", absl::StrFormat("BRBTS_EL1 takes the %s time at a freeze (BRBCR_EL2.TS; the EL1 copy is ignored)", kClocks[*el2]));
    if (el1 && el2) return Add(*el1 ? Level::kInfo : Level::kWarning, "timestamp", *el1 ? absl::StrFormat("BRBTS_EL1 takes the %s time at a freeze (BRBCR_EL1.TS)", kClocks[*el1]) : std::string("both TS fields are 0: the timestamp means nothing"));
    Add(Level::kInfo, "timestamp", "not known", {el2 ? "BRBCR_EL1" : "BRBCR_EL2"});
  }

  void Freeze() {
    auto fzp1 = Bit("BRBCR_EL1", "FZP"), fzp2 = NoEl2() ? Maybe(false) : Bit("BRBCR_EL2", "FZP");
    if (fzp1 && *fzp1) {
      Add(Level::kOk, "freeze", "an overflow of a PMU counter below MDCR_EL2.HPMN freezes the buffer (BRBCR_EL1.FZP)");
    } else if (fzp1) {
      Add(Level::kWarning, "freeze", "BRBCR_EL1.FZP is 0: no freeze at a counter overflow, the handler's own branches overwrite the records before they are read");
    } else {
      Add(Level::kInfo, "freeze", "freeze at a counter overflow: not known", {"BRBCR_EL1"});
    }
    if (fzp2 && *fzp2) Add(Level::kInfo, "freeze", "counters at or above HPMN freeze too (BRBCR_EL2.FZP)");
    auto s1 = Bit("BRBCR_EL1", "FZPSS"), s2 = NoEl2() ? Maybe(true) : Bit("BRBCR_EL2", "FZPSS");
    if (!NoEl2() && s1 && s2 && *s1 != *s2) Add(Level::kWarning, "freeze", "FZPSS is set in one copy only: a PMU snapshot does not freeze");
    if (s1 && s2 && *s1 && *s2) Add(Level::kInfo, "freeze", "a PMU snapshot freezes the buffer (FEAT_PMUv3_SS)");
  }

  void PausedAndBank() {
    auto fcr = env_.Get("BRBFCR_EL1");
    if (!fcr) return;
    if (*fcr & kFcrPaused) {
      Add(Level::kWarning, "paused", "PAUSED = 1: nothing is recorded now. Hardware sets it at a freeze and never clears it: only a write of BRBFCR_EL1 does (a loop that waits for 0 hangs)");
    } else {
      Add(Level::kWarning, "paused", "PAUSED = 0: the buffer changes while it is read. Pause first (read-modify-write, ISB), then read");
    }
    const uint64_t bank = *fcr >> kFcrBankShift & 3;
    if (bank > 1) return;  // reserved, and reported as that
    auto numrec = Value("BRBIDR0_EL1", "NUMREC");
    if (bank == 1 && numrec && *numrec <= 32) Add(Level::kWarning, "bank", "BANK = 1 shows nothing: there are 32 records or fewer");
    Add(Level::kInfo, "bank", absl::StrFormat("the registers show records %d to %d; after a change of BANK an ISB comes before the first read, and the other bits must be written back as they were", bank * 32, bank * 32 + 31));
  }

  void ResetState() {
    Add(Level::kInfo, "reset", "a warm reset clears E0BRE/E0HBRE and E1BRE/E2BRE only; EXCEPTION, ERTN, FZP, FZPSS, TS, MPRED, CC and all of BRBFCR_EL1 come up UNKNOWN: write whole registers");
  }

  void Order() {
    Maybe e2h = NoEl2() ? Maybe(false) : Bit("HCR_EL2", "E2H");
    std::string text = "order: pause, ISB, BRB IALL, BRBCR, ISB, BRBFCR_EL1 last, because that write clears PAUSED and recording begins";
    if (!e2h) return Add(Level::kInfo, "order", text, {"HCR_EL2.E2H"});
    if (*e2h) text += "; at EL2 with E2H = 1 the name BRBCR_EL1 reaches BRBCR_EL2 and BRBCR_EL12 the EL1 register, with an ISB between accesses through different names";
    Add(Level::kInfo, "order", text);
  }

  void Nested() {
    Maybe nv = Bit("HCR_EL2", "NV"), nv1 = Bit("HCR_EL2", "NV1"), nv2 = Bit("HCR_EL2", "NV2");
    if (!nv || !*nv) return;
    if (!nv1 || !nv2) {
      return Add(Level::kInfo, "nested", "NV = 1: whether EL1 accesses to BRBCR_EL1 or BRBCR_EL12 go to memory at offset 0x8E0 is not known; those to BRBCR_EL2 trap to EL2", {"HCR_EL2.NV1", "HCR_EL2.NV2"});
    }
    if (*nv1 && *nv2) Add(Level::kInfo, "nested", "NV, NV1 and NV2 are 1: EL1 accesses to BRBCR_EL1 go to memory at offset 0x8E0 (not those to BRBCR_EL2)");
    if (!*nv1 && *nv2) Add(Level::kInfo, "nested", "NV and NV2 are 1, NV1 is 0: EL1 accesses to BRBCR_EL12 go to memory at offset 0x8E0");
    Add(Level::kInfo, "nested", "EL1 accesses to BRBCR_EL2 trap to EL2 under NV");
  }

  const Environment& env_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> CheckConfiguration(const Environment& environment) { return Checker(environment).Run(); }

bool HasProblem(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.level == Level::kProblem; });
}

std::optional<uint64_t> Environment::Get(std::string_view name) const {
  // BRBCR_EL12 is the EL1 register by another name.
  auto it = registers.find(std::string(name));
  if (it == registers.end() && name == "BRBCR_EL1") it = registers.find("BRBCR_EL12");
  return it == registers.end() || ~it->second.known ? std::nullopt : std::optional<uint64_t>(it->second.value);
}

std::optional<uint64_t> Environment::Field(std::string_view name, std::string_view field) const {
  auto it = registers.find(std::string(name));
  if (it == registers.end() && name == "BRBCR_EL1") it = registers.find("BRBCR_EL12");
  if (it == registers.end()) return std::nullopt;
  const RegisterSpec& spec = *FindRegister(it->first);
  const FieldSpec* bits = spec.FindField(field);
  if (!bits || (it->second.known & bits->Mask()) != bits->Mask()) return std::nullopt;
  return (it->second.value & bits->Mask()) >> bits->lo;
}

Status AddWord(Environment& environment, std::string_view word) {
  size_t equals = word.find('=');
  if (equals == std::string_view::npos) return InvalidArgument("'" + EscapeForTerminal(word) + "': expected NAME=VALUE, such as brbcr_el1=0xC0013B");
  std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
  if (key == "el2" || key == "el3" || key == "v1p1") {
    if (value != "yes" && value != "no") return InvalidArgument(std::string(key) + " is yes or no");
    (key == "el2" ? environment.has_el2 : key == "el3" ? environment.has_el3 : environment.v1p1) = value == "yes";
    return OkStatus();
  }
  if (key == "feature") {
    if (value != "v1p1" && value != "brbe") return InvalidArgument("feature is brbe or v1p1");
    environment.v1p1 = value == "v1p1";
    return OkStatus();
  }
  size_t dot = key.find('.');
  const RegisterSpec* spec = FindRegister(key.substr(0, dot));
  if (!spec) {
    std::string upper(key);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    auto nearest = NearestNames(upper, RegisterNames(), 1);
    return InvalidArgument("unknown register '" + EscapeForTerminal(key) + "'" + (nearest.empty() ? "" : "; did you mean " + nearest[0] + "?") + " (also: el2, el3, feature)");
  }
  if (dot != std::string_view::npos) {
    std::vector<std::pair<std::string, std::string>> fields = {{std::string(key.substr(dot + 1)), std::string(value)}};
    ASSIGN_OR_RETURN(uint64_t bits, EncodeRegister(*spec, fields));
    const uint64_t mask = spec->FindField(fields[0].first)->Mask();
    auto [it, fresh] = environment.registers.try_emplace(spec->name, Environment::Register{0, 0});
    it->second = {(it->second.value & ~mask) | bits, it->second.known | mask};
    return OkStatus();
  }
  auto number = ParseUint(value);
  if (!number.ok()) return Annotate(number.status(), spec->name);
  environment.registers[spec->name] = {*number, ~uint64_t{0}};
  return OkStatus();
}

}  // namespace brink::brbe
