#include "latency/cyclic_text.h"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace brink::latency {
namespace {

constexpr int64_t kNoSample = 1'000'000;  // what the Min column shows before the first sample

int64_t Truncated(double value) { return static_cast<int64_t>(value); }

double Average(const ThreadResult& thread) { return thread.cycles ? thread.sum_units / static_cast<double>(thread.cycles) : 0; }

// One column a thread, each printed by `cell`.
template <typename Cell>
std::string Columns(const Result& result, const Cell& cell) {
  std::string out;
  for (const ThreadResult& thread : result.threads) out += absl::StrFormat(" %05d", cell(thread));
  return out;
}

void AppendBuckets(std::string* out, const Result& result, int64_t buckets, bool with_sum, bool old_style) {
  for (int64_t bucket = 0; bucket < buckets; ++bucket) {
    uint64_t sum = 0;
    for (const ThreadResult& thread : result.threads) sum += thread.linear[static_cast<size_t>(bucket)];
    if (!sum && !old_style) continue;
    absl::StrAppendFormat(out, "%06d ", bucket * 1000 / result.unit_ns);
    for (size_t i = 0; i < result.threads.size(); ++i) {
      absl::StrAppendFormat(out, "%s%06d", i ? "\t" : "", result.threads[i].linear[static_cast<size_t>(bucket)]);
    }
    if (with_sum) absl::StrAppendFormat(out, "\t%06d", sum);
    *out += '\n';
  }
}

}  // namespace

std::string StatusLine(const StatusView& view, bool nsecs) {
  int64_t min = view.has_min ? view.min : kNoSample;
  std::string line;
  if (nsecs) {
    line = absl::StrFormat("T:%2d (%5d) P:%2d I:%d C:%7d Min:%7d Act:%8d Avg:%8d Max:%8d", view.index, view.tid, view.priority, view.interval_us,
                           view.cycles, min, view.act, Truncated(view.avg), view.max);
  } else {
    line = absl::StrFormat("T:%2d (%5d) P:%2d I:%d C:%7d Min:%7d Act:%5d Avg:%5d Max:%8d", view.index, view.tid, view.priority, view.interval_us,
                           view.cycles, min, view.act, Truncated(view.avg), view.max);
  }
  if (view.with_smi) absl::StrAppendFormat(&line, " SMI:%8d", view.smi);
  return line + "\n";
}

StatusView ViewOf(const ThreadResult& thread, int64_t unit_ns, bool with_smi) {
  StatusView view;
  view.index = thread.index;
  view.tid = thread.tid;
  view.priority = thread.priority;
  view.interval_us = thread.interval_ns / 1000;
  view.cycles = thread.cycles;
  view.has_min = thread.cycles > 0;
  view.min = thread.values.min() / unit_ns;
  view.act = thread.act_ns / unit_ns;
  view.max = thread.values.max() / unit_ns;
  view.avg = Average(thread);
  view.with_smi = with_smi;
  view.smi = thread.smi;
  return view;
}

std::string StatusBlock(const std::string& lines) {
  constexpr const char* kRule = "#---------------------------\n";
  return std::string(kRule) + "# cyclictest current status:\n" + lines + kRule;
}

std::string FrameHead(Policy policy, const std::string& loadavg) {
  std::string name(PolicyName(policy));
  if (policy != Policy::kFifo && policy != Policy::kRr) name += "/" + name;
  return "policy: " + name + ": loadavg: " + loadavg + "          \n\n";
}

std::string CursorUp(size_t threads) { return absl::StrFormat("\033[%dA", threads + 2); }
std::string CursorDown(size_t threads) { return absl::StrFormat("\033[%dB", threads + 2); }

std::string HistogramText(const Result& result, int64_t buckets, bool with_sum, bool old_style) {
  std::string out = "# Histogram\n";
  // cyclictest has it for one thread too, on some lines.
  const bool sum_column = with_sum && result.threads.size() > 1;
  AppendBuckets(&out, result, buckets, sum_column, old_style);
  uint64_t total = 0, overflows = 0;
  int64_t max = 0;
  for (const ThreadResult& thread : result.threads) {
    total += thread.cycles - thread.overflows;
    overflows += thread.overflows;
    max = std::max(max, thread.values.max() / result.unit_ns);
  }
  if (old_style) {
    out += "# Total:";
    for (const ThreadResult& thread : result.threads) absl::StrAppendFormat(&out, " %09d", thread.cycles - thread.overflows);
    if (sum_column) absl::StrAppendFormat(&out, " %09d", total);
    out += '\n';
  }
  out += "# Min Latencies:" + Columns(result, [&](const ThreadResult& t) { return t.cycles ? t.values.min() / result.unit_ns : kNoSample; }) + "\n";
  out += "# Avg Latencies:" + Columns(result, [&](const ThreadResult& t) { return Truncated(Average(t)); }) + "\n";
  out += "# Max Latencies:" + Columns(result, [&](const ThreadResult& t) { return t.values.max() / result.unit_ns; });
  if (sum_column) absl::StrAppendFormat(&out, " %05d", max);
  out += "\n# Histogram Overflows:" + Columns(result, [](const ThreadResult& t) { return t.overflows; });
  if (sum_column) absl::StrAppendFormat(&out, " %05d", overflows);
  out += "\n# Histogram Overflow at cycle number:\n";
  for (const ThreadResult& thread : result.threads) {
    absl::StrAppendFormat(&out, "# Thread %d:", thread.index);
    for (uint64_t cycle : thread.overflow_cycles) absl::StrAppendFormat(&out, " %05d", cycle);
    if (thread.overflows > thread.overflow_cycles.size()) absl::StrAppendFormat(&out, " # %05d others", thread.overflows - thread.overflow_cycles.size());
    out += '\n';
  }
  if (result.has_smi) out += "# SMIs:" + Columns(result, [](const ThreadResult& t) { return t.smi; }) + "\n";
  return out + "\n";
}

std::string VerboseLine(int thread, uint64_t cycle, int64_t value, const int64_t* smi) {
  std::string line = absl::StrFormat("%8d:%8d:%8d", thread, cycle, value);
  if (smi) absl::StrAppendFormat(&line, "%8d", *smi);
  return line + "\n";
}

std::string SpikeText(const Result& result) {
  std::string out = "\n";
  for (const auto& [thread, spike] : result.spikes) absl::StrAppendFormat(&out, "T:%2d Spike:%8d: TS: %12d\n", thread, spike.value, spike.when_us);
  absl::StrAppendFormat(&out, "spikes = %d\n\n", result.spikes_seen);
  return out;
}

std::string BreakText(const Result& result) {
  std::string out = "# Thread Ids:";
  for (const ThreadResult& thread : result.threads) absl::StrAppendFormat(&out, " %05d", thread.tid);
  out += '\n';
  if (result.broke) absl::StrAppendFormat(&out, "# Break thread: %d\n# Break value: %d\n", result.broke->tid, result.broke->value);
  return out;
}

std::string FinalText(const Result& result, const Config& config, bool old_style) {
  std::string out;
  if (!config.histogram) {
    for (const ThreadResult& thread : result.threads) out += StatusLine(ViewOf(thread, result.unit_ns, result.has_smi), result.unit_ns == 1);
  }
  if (config.spike) out += SpikeText(result);
  if (config.histogram && config.histfile.empty()) out += HistogramText(result, config.histogram, config.histogram_all, old_style);
  if (config.break_value) out += BreakText(result);
  return out;
}

}  // namespace brink::latency
