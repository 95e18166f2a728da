// Why a wake-up was late: what was recorded about it (Evidence), and what that comes to (SpikeReport). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/branch.h"
#include "latency/result.h"

namespace brink::latency {

enum class Cause {
  kUnknown, kTask, kInterrupt, kSoftirq, kInterruptsOff, kQuota, kPageFaults, kReclaim, kLockHolder, kOutside, kIdleExit, kTimerSlack, kLastCycle,
};
std::string_view CauseName(Cause cause);

// One row of a report: who took how much of the lateness. `ns` of rows with `counts` add up to the lateness.
struct BlameLine {
  std::string part;  // of kPartNames, "" for remarks
  int64_t ns = 0;
  std::string text;
};

struct SpikeReport {
  int64_t deadline_ns = 0, now_ns = 0;  // CLOCK_MONOTONIC
  int64_t lateness_ns = 0;
  int32_t tid = 0;
  int cpu = -1;
  uint64_t cycle = 0;
  Parts parts;
  Cause cause = Cause::kUnknown;
  std::string subject;                 // "busy (pid 4711)", "NET_RX", ...
  std::string verdict;                 // one sentence
  std::vector<BlameLine> lines;
  std::vector<std::string> kernel_stack, user_stack;  // of what occupied the CPU, innermost first
  std::string stack_of;                // "busy (pid 4711) when it gave way"
  std::vector<std::string> branches;   // before the late interrupt or switch, newest first
  std::string branches_missing;        // why there are none
};

// "spike of 5,012 us on CPU 1 (thread 4711, cycle 17) ..." with its rows.
std::string SpikeText(const SpikeReport& spike);

}  // namespace brink::latency
