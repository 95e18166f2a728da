#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "latency/outputs.h"

namespace brink::latency {
namespace {

std::string Us(int64_t ns) { return absl::StrFormat("%.1f", static_cast<double>(ns) / 1000.0); }

void AppendRow(std::string* out, const std::string& name, const LogHistogram& values, const std::string& tail) {
  absl::StrAppendFormat(out, "%-10s %9d %9s %9s %9s %9s %9s %9s %9s%s\n", name, values.total(), Us(values.min()), Us(static_cast<int64_t>(values.mean())),
                        Us(values.Percentile(50)), Us(values.Percentile(90)), Us(values.Percentile(99)), Us(values.Percentile(99.9)), Us(values.max()), tail);
}

// What makes the figures less than they seem.
void AppendRemarks(std::string* out, const Result& result) {
  uint64_t missed = 0, steps = 0, early = 0, lost = 0;
  for (const ThreadResult& thread : result.threads) {
    missed += thread.missed;
    steps += thread.clock_steps;
    early += thread.early;
    lost += thread.lost_verbose;
  }
  if (missed) {
    LogHistogram corrected = TotalCorrected(result);
    absl::StrAppendFormat(out, "missed periods: %d; with them p99 %s us, p99.9 %s us (a late wake-up hides those that it displaced)\n", missed,
                          Us(corrected.Percentile(99)), Us(corrected.Percentile(99.9)));
  }
  if (steps) absl::StrAppendFormat(out, "samples dropped because the clock was set meanwhile: %d\n", steps);
  if (early) absl::StrAppendFormat(out, "woken before the deadline: %d\n", early);
  if (lost) absl::StrAppendFormat(out, "samples of -v overwritten before they were printed: %d\n", lost);
  for (const std::string& notice : result.notices) *out += "note: " + notice + "\n";
}

void AppendParts(std::string* out, const Result& result) {
  std::vector<LogHistogram> parts(kPartCount);
  for (const ThreadResult& thread : result.threads) {
    for (size_t i = 0; i < thread.parts.size() && i < kPartCount; ++i) parts[i].Merge(thread.parts[i]);
  }
  if (!parts[0].total()) return;
  absl::StrAppendFormat(out, "\nwhere the time went, us\n%-10s %9s %9s %9s %9s %9s %9s\n", "part", "mean", "p50", "p90", "p99", "p99.9", "max");
  for (int i = 0; i < kPartCount; ++i) {
    const LogHistogram& part = parts[static_cast<size_t>(i)];
    absl::StrAppendFormat(out, "%-10s %9s %9s %9s %9s %9s %9s\n", kPartNames[i], Us(static_cast<int64_t>(part.mean())), Us(part.Percentile(50)), Us(part.Percentile(90)),
                          Us(part.Percentile(99)), Us(part.Percentile(99.9)), Us(part.max()));
  }
}

// What late wake-ups have that ordinary ones have not.
void AppendDiff(std::string* out, const PathDiff& diff, size_t most) {
  if (!diff.late || !diff.normal) return;
  absl::StrAppendFormat(out, "\npaths of %d late wake-ups against %d ordinary ones, shares\n  late  ordinary\n", diff.late, diff.normal);
  for (size_t i = 0; i < diff.rows.size() && i < most; ++i) {
    const PathRow& row = diff.rows[i];
    if (diff.LateShare(row) <= diff.NormalShare(row)) break;
    absl::StrAppendFormat(out, "%5.1f%%    %5.1f%%  %s\n", diff.LateShare(row) * 100, diff.NormalShare(row) * 100, EscapeForTerminal(row.path));
  }
}

std::string ThreadTail(const ThreadResult& thread) {
  std::string tail = absl::StrFormat("  %s", PolicyName(thread.policy));
  if (thread.priority) absl::StrAppendFormat(&tail, ":%d", thread.priority);
  if (thread.cpu >= 0) absl::StrAppendFormat(&tail, " cpu %d", thread.cpu);
  if (thread.smi) absl::StrAppendFormat(&tail, " SMIs %d", thread.smi);
  return tail;
}

}  // namespace

std::string ResultText(const Document& document, size_t max_spikes) {
  const Result& result = document.result;
  std::string what = document.kind == "busy" ? "stolen time" : document.kind == "watch" ? "wake-up latency of observed threads" : "wake-up latency";
  std::string out = absl::StrFormat("%s, us", what);
  if (result.clock != "unknown") absl::StrAppendFormat(&out, " (clock %s, %.1f s, ended by %s, own CPU time %.2f s)", result.clock, static_cast<double>(result.elapsed_ns) / 1e9, result.ended_by, result.cpu_seconds);
  absl::StrAppendFormat(&out, "\n%-10s %9s %9s %9s %9s %9s %9s %9s %9s\n", document.kind == "busy" ? "cpu" : "thread", "samples", "min", "mean", "p50", "p90", "p99", "p99.9", "max");
  for (const ThreadResult& thread : result.threads) AppendRow(&out, absl::StrFormat("%d", thread.tid ? thread.tid : thread.index), thread.values, ThreadTail(thread));
  if (result.threads.size() > 1) AppendRow(&out, "all", Total(result), "");
  AppendParts(&out, result);
  AppendRemarks(&out, result);
  if (result.broke) absl::StrAppendFormat(&out, "limit broken by thread %d: %d %s\n", result.broke->tid, result.broke->value, result.unit_ns == 1 ? "ns" : "us");
  for (size_t i = 0; i < document.spikes.size() && i < max_spikes; ++i) out += "\n" + SpikeText(document.spikes[i]);
  if (document.spikes.size() > max_spikes) absl::StrAppendFormat(&out, "\n%d more late wake-ups are explained (--max-spikes)\n", document.spikes.size() - max_spikes);
  if (!document.tail_paths.empty()) out += "\npaths of late wake-ups, with their number\n";
  for (size_t i = 0; i < document.tail_paths.size() && i < max_spikes; ++i) out += "  " + EscapeForTerminal(document.tail_paths[i]) + "\n";
  AppendDiff(&out, document.path_diff, max_spikes);
  return out;
}

std::string ResultCsv(const Document& document) {
  std::string out = "thread,cpu,low_ns,high_ns,count\n";
  LogHistogram total;
  auto rows = [&](const std::string& name, int cpu, const LogHistogram& values) {
    values.ForEach([&](int64_t low, int64_t high, uint64_t count) { absl::StrAppendFormat(&out, "%s,%d,%d,%d,%d\n", name, cpu, low, high, count); });
  };
  for (const ThreadResult& thread : document.result.threads) {
    rows(std::to_string(thread.index), thread.cpu, thread.values);
    total.Merge(thread.values);
  }
  rows("all", -1, total);
  return out;
}

}  // namespace brink::latency
