#include "brbe/diagnose.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::brbe {

const std::vector<Symptom>& AllSymptoms() {
  static const std::vector<Symptom> symptoms = {
      {"no-records",
       "none nothing empty no-records zero-records",
       "no record at all",
       {{"the kernel has no BRBE driver or ignores the CPU", "brink doctor; /sys/bus/event_source/devices/*/caps/branches", "Linux 6.17 or later with CONFIG_ARM64_BRBE, a CPU with FEAT_BRBE, no guest (KVM hides it)", "feature"},
        {"firmware keeps BRBE closed", "MDCR_EL3.SBRBE", "SBRBE = 1 (Non-secure) or 3 in firmware", "access"},
        {"recording is paused", "BRBFCR_EL1.PAUSED (bit 7)", "write BRBFCR_EL1 with PAUSED = 0: only software clears it", "paused"},
        {"the level is a prohibited region", "E0BRE, E1BRE, E2BRE, E0HBRE; HCR_EL2.TGE decides between E0BRE and E0HBRE", "set the enable of the level that runs", "EL0"},
        {"no kind matches", "BRBFCR_EL1 bits 22:17 and EnI (16)", "EnI = 0 with no kind set records exceptions only", "kinds"}}},
      {"records-missing",
       "missing some lost incomplete gaps short few records-missing",
       "some branches are not among the records",
       {{"kinds are left out", "BRBFCR_EL1: CONDDIR (22) and DIRCALL (21) belong to all control flow", "0x7E0000 takes all six kinds", "kinds"},
        {"exceptions or returns from them are off", "BRBCR EXCEPTION (23), ERTN (22); Linux sets them with k only", "ask for u,k", "exceptions"},
        {"the buffer is emptied at each enable", "samples right after a context switch or another sample hold few records", "a longer period; this is how Linux works", ""},
        {"the handler overwrites the records", "BRBCR FZP (8) = 0", "set FZP: without it nothing freezes the buffer at the overflow", "freeze"},
        {"only the first bank is read", "BRBIDR0_EL1.NUMREC = 64 and BANK never written", "read bank 0, write BANK = 1 by read-modify-write with PAUSED = 1, ISB, read again", "bank"},
        {"reading stopped at an invalid record", "VALID = 0 in the middle of a dump", "brink brbe decode shows what lies behind it", ""},
        {"debug, FIQ or EL3 records", "their perf type is 0, Linux drops them", "brink brbe decode shows them; --brbe-model quirks=off keeps them", ""}}},
      {"half-records",
       "half from=0 to=0 zero-address half-records unknown-address",
       "records with from or to = 0",
       {{"one side ran where recording is prohibited", "VALID = 1 (target only) or 2 (source only)", "normal at kernel entry and exit with u alone; ask for u,k to have both sides", "EL1"}}},
      {"cycles-wrong",
       "cycle cycles cc count counts timing latency cycles-wrong wrong",
       "cycle counts are missing or look wrong",
       {{"CC is set in one copy only", "BRBCR_EL1.CC and BRBCR_EL2.CC (bit 3)", "both copies must be 1 where EL2 is implemented", "flags"},
        {"the count is marked unknown", "BRBINF.CCU (46) = 1: the first record after a prohibited region, a pause, BRB IALL or after CC came on", "a status of that record, not a control; show it as unknown, not as 0", ""},
        {"the count overflowed", "CC all ones (0x3FFF)", "2^20 cycles and more cannot be told apart; perf shows 65535", ""},
        {"the exponent was decoded wrongly", "E = 0: M; else (256 + M) << (E - 1); E above 12 is impossible", "brink brbe decode", ""},
        {"branches in between are filtered out", "the count runs from record to record, not from branch to branch", "record all kinds for block timing", "kinds"},
        {"perf clips at 65535", "counts of 65535", "brink brbe decode of the raw record", ""}}},
      {"mispredicts-wrong",
       "mispredict mispredicted prediction predicted mpred mispredicts-wrong",
       "no branch, or every branch, is mispredicted",
       {{"MPRED is set in one copy only", "BRBCR_EL1.MPRED and BRBCR_EL2.MPRED (bit 4)", "both copies must be 1", "flags"},
        {"0 was taken for predicted", "MPRED = 0 is predicted or not captured", "look whether BRBCR.MPRED was on", "flags"},
        {"target-only records and exceptions have no flag", "VALID = 1, TYPE bit 5", "unknown there", ""},
        {"a filter for mispredicted branches was expected", "there is none in hardware: MPRED only allows the flag", "brink record --where mispredicted filters in BPF", ""}}},
      {"traps",
       "trap traps undef undefined access exception sigill panic",
       "an access traps or is UNDEFINED",
       {{"EL3 does not allow it", "MDCR_EL3.SBRBE and SCR_EL3.NS", "SBRBE = 1 for Non-secure, 3 for both", "access"},
        {"EL2 traps it", "HDFGRTR_EL2 and HDFGWTR_EL2 nBRBCTL (60), nBRBDATA (61), nBRBIDR (59); HFGITR_EL2 nBRBIALL (56), nBRBINJ (55)", "1 = no trap", "traps"},
        {"EL0 has no access", "user space touched the registers", "use perf or brink", ""},
        {"nested virtualisation", "HCR_EL2.NV, NV1, NV2", "BRBCR_EL1 may go to memory (0x8E0); BRBCR_EL2 traps", "nested"}}},
      {"hang",
       "hang hangs loop wait stuck paused forever",
       "waiting for PAUSED never ends",
       {{"hardware never clears PAUSED", "while (BRBFCR_EL1 & PAUSED) ...", "pause by software, ISB, read, then write BRBFCR_EL1 to go on", "paused"}}},
      {"wrong-records",
       "wrong garbage overwritten changing own handler collector inconsistent",
       "the records change while they are read, or are the reader's own",
       {{"not paused while reading", "BRBFCR_EL1.PAUSED = 0", "pause, ISB, then read", "paused"},
        {"BANK written without the other bits", "a plain write of BANK clears PAUSED and the filter", "read-modify-write", "bank"},
        {"no freeze at the overflow", "BRBCR FZP = 0", "set FZP", "freeze"},
        {"no ISB after a change of BANK", "records of the other bank appear", "ISB between the write and the first read", "bank"}}},
  };
  return symptoms;
}

const Symptom* FindSymptom(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const Symptom* best = nullptr;
  int best_score = 0;
  for (const Symptom& symptom : AllSymptoms()) {
    if (lower == symptom.name) return &symptom;
    int score = 0;
    for (std::string_view word : Split(lower, ' ')) {
      for (std::string_view known : Split(symptom.words, ' ')) score += !word.empty() && word == known;
    }
    if (score > best_score) {
      best = &symptom;
      best_score = score;
    }
  }
  return best;
}

std::vector<Verdict> VerdictsOn(const Cause& cause, const Environment& environment) {
  std::vector<Verdict> verdicts;
  if (environment.registers.empty() || !*cause.topic) return verdicts;
  for (const Finding& f : CheckConfiguration(environment)) {
    if (f.topic != cause.topic) continue;
    const char* word = f.level == Finding::Level::kProblem ? "YES" : f.level == Finding::Level::kWarning ? "likely" : f.level == Finding::Level::kOk ? "no" : "here";
    verdicts.push_back({word, f.text, f.hangs_on});
  }
  return verdicts;
}

std::string DiagnoseText(const Symptom& symptom, const Environment& environment) {
  std::string out = absl::StrFormat("%s: %s\n", symptom.name, symptom.summary);
  int number = 0;
  for (const Cause& cause : symptom.causes) {
    absl::StrAppendFormat(&out, "\n%d. %s\n   look at: %s\n   remedy:  %s\n", ++number, cause.cause, cause.look, cause.remedy);
    for (const Verdict& v : VerdictsOn(cause, environment)) {
      std::string text = v.text;
      for (const std::string& input : v.hangs_on) text += " [" + input + " not given]";
      absl::StrAppendFormat(&out, "   %-8s %s\n", v.word + std::string(":"), text);
    }
  }
  return out;
}

std::optional<std::string> ArticleSpelling(std::string_view text) {
  if (text.starts_with("arm_brbe") || text.find("arm_brbe/") != std::string_view::npos) {
    return "there is no PMU 'arm_brbe': BRBE belongs to the CPU's own PMU (arm_pmuv3), used with -b or -j on an ordinary event"
           "; a mispredict-only filter does not exist in hardware: use --where mispredicted";
  }
  if (text == "--branch-history" || text == "branch-history") {
    return "--branch-history belongs to report, not to annotate: perf report --branch-history, or brink report";
  }
  if (text.find("mpred1") != std::string_view::npos) return "MPRED only allows the flag to be recorded; it filters nothing: use --where mispredicted";
  return std::nullopt;
}

}  // namespace brink::brbe
