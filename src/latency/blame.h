// Why a wake-up was late: what was recorded about it (Evidence), and what that comes to (SpikeReport). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/branch.h"
#include "brink/abi/latency.h"
#include "latency/result.h"

namespace brink::latency {

enum class Cause {
  kUnknown, kTask, kInterrupt, kSoftirq, kInterruptsOff, kQuota, kPageFaults, kReclaim, kLockHolder, kOutside, kIdleExit, kTimerSlack, kLastCycle,
};
std::string_view CauseName(Cause cause);

// One row of a report: who took how much of the lateness. `ns` of rows that have a part add up to the lateness.
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
  std::string occupant;                // comm of what had the CPU, "" unknown
  std::vector<std::string> previous_branches;  // before the timer interrupt that came before the late one, newest first
  std::vector<std::string> walked;     // user branches of what was interrupted, from there on, oldest first
  std::string walked_of;               // "busy (pid 4711)", "" not walked
  std::string walked_end;              // why the walk ended
  int64_t previous_ns = 0;             // from that interrupt to the wake-up; 0 unknown
};

// "late by 5012.0 us on CPU 1 ..." with its rows.
std::string SpikeText(const SpikeReport& spike);

// What one CPU did, oldest first, as copied from its log.
struct CpuLog {
  int cpu = -1;
  std::vector<brink_lat_event> events;
};

// What was recorded about one late wake-up.
struct Evidence {
  int64_t deadline = 0, now = 0;       // CLOCK_MONOTONIC
  uint64_t cycle = 0;
  int32_t tid = 0;
  Policy policy = Policy::kOther;
  brink_lat_slot slot = {};            // as it was when `now` was read
  CpuLog own;                          // of the CPU on which the thread ran again
  std::vector<CpuLog> others;          // of other CPUs, for their silence
  int64_t beat_ns = 0;                 // every CPU has a timer of its own, this far apart; 0: none
  brink_lat_capture waking = {}, switching = {};  // when == 0: none
  int64_t throttled_periods = 0;       // more than before, of the thread's cpu group
  uint64_t faults = 0;                 // of the thread since its last switch-in
  int64_t reclaim_ns = 0;
  uint64_t smi = 0;                    // system management interrupts since the wake-up before
  int64_t stolen_ns = 0;               // by the hypervisor, of the CPU, in steps of 10 ms
  bool branches_asked = false;
  std::string branches_missing;
};
inline constexpr int64_t kBeatNs = 1'000'000;

// Names for what the evidence holds as numbers. Any may be empty.
struct Names {
  std::function<std::string(uint64_t address)> kernel;                 // "do_syscall_64", "" unknown
  std::function<std::string(uint32_t tgid, uint64_t address)> user;
  std::function<std::string(uint32_t tgid)> container;                 // "docker 3f2a...", "" none
};

// The split of a lateness. A thread that never slept has all of it in `user`.
Parts SplitLateness(int64_t deadline, int64_t now, const brink_lat_slot& slot);

// The verdict. Rows with a part add up to the lateness exactly.
SpikeReport Explain(const Evidence& evidence, const Names& names);

// The longest stretch of [from, to] in which no CPU of the logs recorded anything.
struct Gap {
  int64_t start = 0, end = 0;
  int64_t length() const { return end - start; }
};
Gap LongestSilence(const Evidence& evidence, int64_t from, int64_t to);

// Who had a CPU in [from, to], without what interrupts took of it.
struct Share {
  uint32_t kind = 0;  // enum brink_lat_kind
  uint32_t id = 0, tgid = 0;
  std::string name;
  int64_t ns = 0;
  uint64_t count = 0, faults = 0;
  int64_t reclaim_ns = 0;
  uint64_t work = 0;
};
std::vector<Share> SharesOf(const CpuLog& log, int64_t from, int64_t to);

}  // namespace brink::latency
