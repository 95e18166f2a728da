// What a measurement came to: plain values, the same for every output format and for `brink latency report`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "latency/config.h"
#include "latency/histogram.h"

namespace brink::latency {

// Where the time of one wake-up went, in ns; the sum is the lateness (see docs/latency.md).
struct Parts {
  int64_t timer_late = 0;  // deadline to the timer interrupt
  int64_t interrupt = 0;   // timer interrupt to the wake-up of the thread
  int64_t wait = 0;        // runnable, but not running
  int64_t blocked = 0;     // put to sleep again before it saw the clock
  int64_t user = 0;        // running: the way back to user space, until the clock was read
  int64_t sum() const { return timer_late + interrupt + wait + blocked + user; }
};
inline constexpr int kPartCount = 5;
inline constexpr const char* kPartNames[kPartCount] = {"timer_late", "interrupt", "wait", "blocked", "user"};

struct WorstSample {
  int64_t value_ns = 0;
  uint64_t cycle = 0;
  int64_t when_ns = 0;  // the run's clock at which it was seen
};

struct SpikeRecord {
  int64_t value = 0;     // display units
  int64_t when_us = 0;   // chosen clock
};

struct ThreadResult {
  int index = 0;
  pid_t tid = 0;
  int cpu = -1, node = 0;
  Policy policy = Policy::kOther;
  int priority = 0;
  int64_t interval_ns = 0;
  uint64_t cycles = 0;             // samples counted (after warm-up)
  int64_t act_ns = 0;
  double sum_units = 0;            // of truncated display units, as cyclictest adds them
  LogHistogram values;             // ns
  LogHistogram corrected;          // with the samples that could not be taken; filled when missed > 0, see Corrected()
  std::vector<uint64_t> linear;    // -h: microseconds 0..n-1
  uint64_t overflows = 0;
  std::vector<uint64_t> overflow_cycles;  // first n of them
  std::vector<int64_t> overflow_values_ns;
  uint64_t missed = 0;             // periods without a sample
  uint64_t clock_steps = 0;        // samples dropped because the clock was set
  uint64_t early = 0;              // negative lateness
  uint64_t lost_verbose = 0;       // -v: samples that were overwritten before they were printed
  uint64_t smi = 0;
  uint64_t page_faults = 0;        // of the thread between its first deadline and its end
  std::vector<WorstSample> worst;  // largest first
  std::vector<LogHistogram> parts; // --blame: one for each of kPartNames, or empty
  uint64_t loops = 0;              // busy: turns of the loop, with and without a gap
  double counter_mhz = 0;          // busy: of the counter that is read
  std::string refused;             // why the policy asked for was not given
  const LogHistogram& Corrected() const { return missed ? corrected : values; }
};

struct Break {
  pid_t tid = 0;
  int64_t value = 0;  // display units
};

struct Result {
  std::vector<ThreadResult> threads;
  std::vector<std::pair<int, SpikeRecord>> spikes;  // thread, record; first ones
  uint64_t spikes_seen = 0;
  std::optional<Break> broke;
  std::string ended_by;   // duration, loops, break, signal, error
  std::string clock;
  int64_t unit_ns = 1000;
  int64_t elapsed_ns = 0;
  int64_t start_wall_ns = 0, end_wall_ns = 0;  // CLOCK_REALTIME
  int64_t start_mono_ns = 0;
  double cpu_seconds = 0; // of this process, user and system
  bool has_smi = false;
  std::string command_line;
  std::vector<std::string> notices;
};

// Total over all threads.
LogHistogram Total(const Result& result);
LogHistogram TotalCorrected(const Result& result);

}  // namespace brink::latency
