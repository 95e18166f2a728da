// What a run says at its end, and its counters while it lasts.
#include <optional>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/stop.h"
#include "base/strings.h"
#include "monitor/run.h"

namespace brink::cfi {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMisses[] = {"own writes", "process", "page", "entry", "changed"};  // by enum brink_miss_reason

double Percent(uint64_t part, uint64_t whole) { return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0; }

// The bucket of [first, last) in which the middle one of all lies, from 0; nothing where there is none.
std::optional<uint32_t> MiddleBucket(const CheckCounts& counts, uint32_t first, uint32_t last) {
  uint64_t all = 0, so_far = 0;
  for (uint32_t i = first; i < last; ++i) all += counts[i];
  for (uint32_t i = first; i < last; ++i) {
    so_far += counts[i];
    if (all && 2 * so_far >= all) return i - first;
  }
  return std::nullopt;
}

// Upper end of the bucket in which the middle check with a whole walk lies.
uint64_t MedianNs(const CheckCounts& counts) {
  auto bucket = MiddleBucket(counts, BRINK_CFI_CNT_TIMES, BRINK_CFI_CNT_JUDGE);
  return bucket ? uint64_t{2} << *bucket : 0;
}

// The same of the policies alone, over windows of at least BRINK_CFI_JUDGED branches.
uint64_t MedianJudgeNs(const CheckCounts& counts) {
  auto bucket = MiddleBucket(counts, BRINK_CFI_CNT_JUDGE, BRINK_CFI_CNT_MAX);
  return bucket ? BRINK_CFI_JUDGE_NS * uint64_t{*bucket + 1} : 0;
}

std::string Unknowns(const PolicyCounts& counts) {
  std::string out;
  for (size_t i = 0; i < kReasonCount; ++i) {
    if (counts.unknown[i]) absl::StrAppendFormat(&out, "%s%s %d", out.empty() ? "" : ", ", std::string(ReasonName(static_cast<Reason>(i))), counts.unknown[i]);
  }
  return out;
}

}  // namespace

std::string ReportText(const RunReport& r) {
  const CheckCounts& c = r.checks;
  std::string out = absl::StrFormat("%d checks: %d windows sent, %d like one before, %d without a branch, %d throttled, %d nested; %d edges sent, %d repeated\n", c[BRINK_CFI_CNT_CHECKS], c[BRINK_CFI_CNT_SENT], c[BRINK_CFI_CNT_REPEATED],
                                    c[BRINK_CFI_CNT_EMPTY], c[BRINK_CFI_CNT_THROTTLED], c[BRINK_CFI_CNT_NESTED], c[BRINK_CFI_CNT_EDGES], c[BRINK_CFI_CNT_REPEATED_EDGES]);
  const uint64_t walks = c[BRINK_CFI_CNT_CHECKS] - c[BRINK_CFI_CNT_THROTTLED] - c[BRINK_CFI_CNT_NESTED];
  if (walks) absl::StrAppendFormat(&out, "time in BPF: %.1f us a check in the mean, median of whole walks below %.1f us; of the policies over 32 branches and more %.1f us\n", static_cast<double>(c[BRINK_CFI_CNT_NS]) / 1e3 / static_cast<double>(walks), static_cast<double>(MedianNs(c)) / 1e3, static_cast<double>(MedianJudgeNs(c)) / 1e3);
  if (r.hardware) absl::StrAppendFormat(&out, "entries by branch hardware, exits by walks ahead; %d times the hardware had nothing; %d sensitive calls with at most %d branches at hand (a switch empties it); %d records from before an exec left out\n", c[BRINK_CFI_CNT_NO_PAST], c[BRINK_CFI_CNT_SHORT_PAST], BRINK_CFI_SHORT, r.judge.totals.forgotten);
  out += "walks ended by:";
  for (int stop = 0; stop < BRINK_STOP_MAX; ++stop) {
    if (uint64_t n = c[BRINK_CFI_CNT_STOPS + static_cast<uint32_t>(stop)]) absl::StrAppendFormat(&out, " %s %d", stop ? std::string(StopReasonName(stop)) : "(none)", n);
  }
  out += "\nmisses:";
  for (uint32_t i = 0; i < std::size(kMisses); ++i) absl::StrAppendFormat(&out, " %s %d", kMisses[i], c[BRINK_CFI_CNT_MISSES + i]);
  const uint64_t unvetted = UnvettedChecks(c);
  if (unvetted) absl::StrAppendFormat(&out, "\nnothing could be said at %d of %d checks (%.1f %%): the process had not been vetted yet; %d processes were", unvetted, walks, Percent(unvetted, walks), r.lift.vetted);
  if (c[BRINK_CFI_CNT_FORGED]) absl::StrAppendFormat(&out, "\n%d times a thread returned from a signal's handler that it was not in", c[BRINK_CFI_CNT_FORGED]);
  if (r.judge.healed) absl::StrAppendFormat(&out, "\nmappings that nobody had told of were read again %d times", r.judge.healed);
  if (r.judge.left_out) absl::StrAppendFormat(&out, "\n%d windows left out by policy files", r.judge.left_out);
  const Result& t = r.judge.totals;
  absl::StrAppendFormat(&out, "\n%d windows judged, %d edges of user code, %d checked (%.1f %%); of %d indirect edges between files with unwind tables %d without an answer (%.2f %%)\n", r.judge.windows, t.edges, t.checked, Percent(t.checked, t.edges), t.unwind_edges,
                        t.unwind_unknown, Percent(t.unwind_unknown, t.unwind_edges));
  absl::StrAppendFormat(&out, "%-4s %10s %10s %10s %10s  %s\n", "", "held", "violated", "excepted", "unknown", "unknown because");
  for (size_t i = 0; i < kPolicyCount; ++i) {
    const PolicyCounts& p = t.policies[i];
    if (p.held + p.violated + p.excepted + p.unknown_total() == 0) continue;
    absl::StrAppendFormat(&out, "%-4s %10d %10d %10d %10d  %s\n", std::string(PolicyName(static_cast<Policy>(i))), p.held, p.violated, p.excepted, p.unknown_total(), Unknowns(p));
  }
  for (size_t i = 0; i < kExceptionCount; ++i) {
    if (t.exceptions[i]) absl::StrAppendFormat(&out, "%s: %d\n", std::string(ExceptionName(static_cast<Exception>(i))), t.exceptions[i]);
  }
  size_t shown = 0;
  for (const auto& [path, count] : r.judge.missing) {
    if (++shown <= 8) absl::StrAppendFormat(&out, "no facts: %s (%d)\n", EscapeForTerminal(path), count);
  }
  absl::StrAppendFormat(&out, "alarms: %d high, %d medium, %d low, %d info, %d suppressed by policy; %d told, %d repeated, %d over a limit\n", r.judge.alarms[3], r.judge.alarms[2], r.judge.alarms[1], r.judge.alarms[0], r.judge.suppressed,
                        r.told, r.repeated, r.limited);
  if (c[BRINK_CFI_CNT_KILLED] + c[BRINK_CFI_CNT_STOPPED] + c[BRINK_CFI_CNT_DENIED] + c[BRINK_CFI_CNT_WOULD] + c[BRINK_CFI_CNT_HELD_BACK]) {
    absl::StrAppendFormat(&out, "actions in the kernel: %d killed, %d stopped, %d denied, %d in dry runs, %d held back\n", c[BRINK_CFI_CNT_KILLED], c[BRINK_CFI_CNT_STOPPED], c[BRINK_CFI_CNT_DENIED], c[BRINK_CFI_CNT_WOULD], c[BRINK_CFI_CNT_HELD_BACK]);
  }
  for (size_t i = 0; i < static_cast<size_t>(LossCause::kCount); ++i) {
    const auto cause = static_cast<LossCause>(i);
    if (r.books.of(cause).records) absl::StrAppendFormat(&out, "lost %d: %s\n", r.books.of(cause).records, LossCauseName(cause));
  }
  for (const auto& [word, failed] : r.sink_failures) absl::StrAppendFormat(&out, "%d alarms did not get through to %s\n", failed, EscapeForTerminal(word));
  if (r.learned_edges) absl::StrAppendFormat(&out, "learned %d edges and %d ways back of %d files\n", r.learned_edges, r.learned_paths, r.learned_files);
  return out;
}

std::string ReportJson(const RunReport& r) {
  const CheckCounts& c = r.checks;
  Json policies = Json::object(), stops = Json::object(), exceptions = Json::object(), times = Json::array();
  for (size_t i = 0; i < kPolicyCount; ++i) {
    const PolicyCounts& p = r.judge.totals.policies[i];
    Json unknown = Json::object();
    for (size_t k = 0; k < kReasonCount; ++k) {
      if (p.unknown[k]) unknown[std::string(ReasonName(static_cast<Reason>(k)))] = p.unknown[k];
    }
    policies[std::string(PolicyName(static_cast<Policy>(i)))] = {{"held", p.held}, {"violated", p.violated}, {"excepted", p.excepted}, {"unknown", unknown}};
  }
  for (size_t i = 0; i < kExceptionCount; ++i) exceptions[std::string(ExceptionName(static_cast<Exception>(i)))] = r.judge.totals.exceptions[i];
  for (int stop = 1; stop < BRINK_STOP_MAX; ++stop) stops[std::string(StopReasonName(stop))] = c[BRINK_CFI_CNT_STOPS + static_cast<uint32_t>(stop)];
  for (uint32_t i = BRINK_CFI_CNT_TIMES; i < BRINK_CFI_CNT_JUDGE; ++i) times.push_back(c[i]);
  Json misses = Json::object();
  for (uint32_t i = 0; i < std::size(kMisses); ++i) misses[kMisses[i]] = c[BRINK_CFI_CNT_MISSES + i];
  Json json = {{"schema", "brink.cfi.run.v1"},
               {"elapsed_ns", r.elapsed_ns},
               {"checks", c[BRINK_CFI_CNT_CHECKS]}, {"sent", c[BRINK_CFI_CNT_SENT]}, {"repeated", c[BRINK_CFI_CNT_REPEATED]}, {"repeated_edges", c[BRINK_CFI_CNT_REPEATED_EDGES]}, {"empty", c[BRINK_CFI_CNT_EMPTY]},
               {"throttled", c[BRINK_CFI_CNT_THROTTLED]}, {"nested", c[BRINK_CFI_CNT_NESTED]}, {"compat", c[BRINK_CFI_CNT_COMPAT]}, {"suspect", c[BRINK_CFI_CNT_SUSPECT]}, {"check_ns", c[BRINK_CFI_CNT_NS]},
               {"misses", misses}, {"unvetted_checks", UnvettedChecks(c)}, {"forged_signal_returns", c[BRINK_CFI_CNT_FORGED]}, {"left_out", r.judge.left_out}, {"mappings_read_again", r.judge.healed}, {"lift", {{"queue_full", r.lift.queue_full}, {"pages", r.lift.pages}, {"ahead", r.lift.ahead}, {"vetted", r.lift.vetted}}}, {"whole_walk_median_ns", MedianNs(c)}, {"judge_median_ns", MedianJudgeNs(c)}, {"whole_walk_ns_log2", times}, {"stops", stops},
               {"actions", {{"killed", c[BRINK_CFI_CNT_KILLED]}, {"stopped", c[BRINK_CFI_CNT_STOPPED]}, {"denied", c[BRINK_CFI_CNT_DENIED]}, {"dry", c[BRINK_CFI_CNT_WOULD]}, {"held_back", c[BRINK_CFI_CNT_HELD_BACK]}}},
               {"windows", r.judge.windows}, {"edges", r.judge.totals.edges}, {"checked", r.judge.totals.checked}, {"unwind_edges", r.judge.totals.unwind_edges}, {"unwind_unknown", r.judge.totals.unwind_unknown}, {"hardware", r.hardware}, {"no_past", c[BRINK_CFI_CNT_NO_PAST]}, {"short_past", c[BRINK_CFI_CNT_SHORT_PAST]}, {"forgotten", r.judge.totals.forgotten}, {"judge_cpu_ns", r.judge.busy_ns},
               {"alarms", {{"high", r.judge.alarms[3]}, {"medium", r.judge.alarms[2]}, {"low", r.judge.alarms[1]}, {"info", r.judge.alarms[0]}, {"suppressed", r.judge.suppressed}}},
               {"told", r.told}, {"repeated_alarms", r.repeated}, {"limited_alarms", r.limited}, {"lost", r.judge.lost}, {"reloads", r.reloads}, {"bad_reloads", r.bad_reloads},
               {"learned", {{"edges", r.learned_edges}, {"paths", r.learned_paths}, {"files", r.learned_files}}},
               {"files_missing", r.judge.missing}, {"policies", policies}, {"exceptions", exceptions}};
  return AsciiJson(json);
}

std::string MetricsText(const RunReport& r) {
  const CheckCounts& c = r.checks;
  std::string out;
  auto head = [&](const char* name, const char* help) { absl::StrAppendFormat(&out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name); };
  auto plain = [&](const char* name, const char* help, uint64_t value) {
    head(name, help);
    absl::StrAppendFormat(&out, "%s %d\n", name, value);
  };
  plain("brink_cfi_checks_total", "Check points reached by the target.", c[BRINK_CFI_CNT_CHECKS]);
  plain("brink_cfi_windows_sent_total", "Windows sent to user space.", c[BRINK_CFI_CNT_SENT]);
  plain("brink_cfi_windows_repeated_total", "Windows equal to one that was sent.", c[BRINK_CFI_CNT_REPEATED]);
  plain("brink_cfi_windows_empty_total", "Checks that saw no branch.", c[BRINK_CFI_CNT_EMPTY]);
  plain("brink_cfi_throttled_total", "Checks not made because the CPU's share was used up.", c[BRINK_CFI_CNT_THROTTLED]);
  plain("brink_cfi_unvetted_checks_total", "Checks that could say nothing because the process had not been vetted yet.", UnvettedChecks(c));
  plain("brink_cfi_forged_signal_returns_total", "Returns from signal handlers that the thread was not in.", c[BRINK_CFI_CNT_FORGED]);
  plain("brink_cfi_no_past_total", "Checks at which the branch hardware had nothing: switched off, or taken by another user.", c[BRINK_CFI_CNT_NO_PAST]);
  plain("brink_cfi_short_windows_total", "Sensitive calls at which the branch hardware had next to nothing, as after a switch.", c[BRINK_CFI_CNT_SHORT_PAST]);
  plain("brink_cfi_edges_total", "Edges judged.", r.judge.totals.edges);
  plain("brink_cfi_edges_checked_total", "Edges on which a policy gave an answer.", r.judge.totals.checked);
  plain("brink_cfi_lost_total", "Records and windows lost.", r.judge.lost);
  plain("brink_cfi_suppressed_total", "Alarms taken back by a policy file.", r.judge.suppressed);
  plain("brink_cfi_alarms_repeated_total", "Alarms equal to one that was told.", r.repeated);
  plain("brink_cfi_alarms_limited_total", "Alarms over a budget.", r.limited);
  plain("brink_cfi_policy_reloads_total", "Times that the policy files were read again.", r.reloads);
  plain("brink_cfi_policy_reload_errors_total", "Times that they could not be.", r.bad_reloads);
  head("brink_cfi_alarms_total", "Alarms by severity.");
  for (Severity s : {Severity::kInfo, Severity::kLow, Severity::kMedium, Severity::kHigh}) absl::StrAppendFormat(&out, "brink_cfi_alarms_total{severity=\"%s\"} %d\n", std::string(SeverityName(s)), r.judge.alarms[static_cast<size_t>(s)]);
  head("brink_cfi_verdicts_total", "Answers of policies.");
  for (size_t i = 0; i < kPolicyCount; ++i) {
    const PolicyCounts& p = r.judge.totals.policies[i];
    const std::string name(PolicyName(static_cast<Policy>(i)));
    for (const auto& [verdict, n] : {std::pair("held", p.held), std::pair("violated", p.violated), std::pair("excepted", p.excepted), std::pair("unknown", p.unknown_total())}) {
      absl::StrAppendFormat(&out, "brink_cfi_verdicts_total{policy=\"%s\",verdict=\"%s\"} %d\n", name, verdict, n);
    }
  }
  head("brink_cfi_walk_stops_total", "Walks by why they ended.");
  for (int stop = 1; stop < BRINK_STOP_MAX; ++stop) absl::StrAppendFormat(&out, "brink_cfi_walk_stops_total{stop=\"%s\"} %d\n", std::string(StopReasonName(stop)), c[BRINK_CFI_CNT_STOPS + static_cast<uint32_t>(stop)]);
  head("brink_cfi_walk_misses_total", "Walks that met code or a process that was not known yet.");
  for (uint32_t i = 0; i < std::size(kMisses); ++i) absl::StrAppendFormat(&out, "brink_cfi_walk_misses_total{reason=\"%s\"} %d\n", kMisses[i], c[BRINK_CFI_CNT_MISSES + i]);
  head("brink_cfi_actions_total", "Actions in the kernel.");
  for (const auto& [action, which] : {std::pair("kill", BRINK_CFI_CNT_KILLED), std::pair("stop", BRINK_CFI_CNT_STOPPED), std::pair("deny", BRINK_CFI_CNT_DENIED), std::pair("dry", BRINK_CFI_CNT_WOULD), std::pair("held_back", BRINK_CFI_CNT_HELD_BACK)}) {
    absl::StrAppendFormat(&out, "brink_cfi_actions_total{action=\"%s\"} %d\n", action, c[which]);
  }
  return out;
}

}  // namespace brink::cfi
