// Branch events held open so that snapshots have something to read: one pinned, uncounted-for, unsampled event per CPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "kernel/branch_plan.h"

namespace brink {

// The hardware records only while such an event is active on the CPU, and with that event's filter: there is one filter
// a CPU, so the trigger chooses it (user branches for user triggers, kernel branches for kernel triggers).
// Not thread safe: one owner, who calls Refresh now and then.
class HeldEvents {
 public:
  // `flags`: PERF_SAMPLE_BRANCH_* (a kind and privileges). Fails with the reason where no CPU takes it (Zen 3, AMD before
  // 6.12: sampling only).
  static StatusOr<HeldEvents> Open(uint64_t flags);

  // Follows CPU hotplug: opens events of CPUs that came, closes those of CPUs that went, and opens anew those that the
  // kernel has put into error state (a pinned event that lost its counter). The number of events opened.
  StatusOr<int> Refresh();

  // Flags that were accepted, extras such as save_type included.
  uint64_t flags() const { return plan_.sampling.branch_sample_type; }
  // Are kernel and user branches of all kinds recorded (nothing missing between two entries)?
  bool both_privileges() const;
  std::vector<int> cpus() const;
  // CPUs without an event at the moment, with the reason: snapshots there find nothing.
  const std::map<int, Status>& failed() const { return failed_; }

 private:
  Status OpenCpu(int cpu);

  BranchPlan plan_;
  std::map<int, UniqueFd> events_;
  std::map<int, Status> failed_;
};

// Privilege filter that belongs to a trigger: its stacks would otherwise hold mostly the way to the program.
enum class TriggerSide { kUser, kKernel, kBoth };
uint64_t HeldFlags(TriggerSide side, uint64_t kinds = PERF_SAMPLE_BRANCH_ANY);

}  // namespace brink
