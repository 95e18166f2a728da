// Scheduling rights of the calling thread, and the reason when they are refused.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "latency/config.h"

namespace brink::latency {

struct SchedulerRequest {
  Policy policy = Policy::kOther;
  int priority = 0;                            // fifo, rr
  int64_t runtime_ns = 0, period_ns = 0;       // deadline
};

// Sets the calling thread's policy. On EPERM the soft RLIMIT_RTPRIO is raised to the hard one and it is tried again.
// The error names the cause (ExplainRefusal).
Status SetScheduler(const SchedulerRequest& request);

// What decides about real-time rights.
struct RtFacts {
  bool cap_sys_nice = false;
  uint64_t rtprio_hard = 0;      // RLIMIT_RTPRIO
  bool pinned = false;           // fewer CPUs than the root domain: matters to SCHED_DEADLINE
  std::string cpu_cgroup;        // path in the v1 cpu hierarchy, "" without
  int64_t rt_runtime_us = -1;    // its cpu.rt_runtime_us; -1 unknown
  int64_t sysctl_runtime_us = -1;
};
RtFacts ReadRtFacts();
// One line. Pure.
std::string ExplainRefusal(const SchedulerRequest& request, int error, const RtFacts& facts);

}  // namespace brink::latency
