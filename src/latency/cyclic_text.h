// cyclictest's text, line by line: scripts that parse it must not see a difference. Pure: values in, text out.
#pragma once

#include <string>

#include "latency/result.h"

namespace brink::latency {

// One thread as the status line shows it; times in display units.
struct StatusView {
  int index = 0;
  int32_t tid = 0;
  int priority = 0;
  int64_t interval_us = 0;
  uint64_t cycles = 0;
  bool has_min = false;
  int64_t min = 0, act = 0, max = 0;
  double avg = 0;
  bool with_smi = false;
  uint64_t smi = 0;
};

// "T: 0 ( 4892) P:80 I:1000 C:   1000 Min:     13 Act:   16 Avg:   26 Max:      99\n"
std::string StatusLine(const StatusView& view, bool nsecs);
StatusView ViewOf(const ThreadResult& thread, int64_t unit_ns, bool with_smi);

// Ruled status block of SIGUSR1 and SIGUSR2.
std::string StatusBlock(const std::string& lines);

// "policy: fifo: loadavg: 0.14 ..." and the empty line; the caller adds the status lines and the cursor movement.
std::string FrameHead(Policy policy, const std::string& loadavg);
std::string CursorUp(size_t threads);
std::string CursorDown(size_t threads);

// The -h / -H block. `old_style`: as 2.4 and earlier, with empty buckets and the "# Total:" line.
std::string HistogramText(const Result& result, int64_t buckets, bool with_sum, bool old_style);
// -v: "       0:       1:      90\n"
std::string VerboseLine(int thread, uint64_t cycle, int64_t value, const int64_t* smi);
std::string SpikeText(const Result& result);
// "# Thread Ids: ..." of a run with -b, and the thread and value that broke the limit.
std::string BreakText(const Result& result);

// What is printed at the orderly end with -q: status lines or the histogram, break and spikes, in cyclictest's order.
std::string FinalText(const Result& result, const Config& config, bool old_style);

}  // namespace brink::latency
