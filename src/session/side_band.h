// The side-band: what the kernel tells about processes, mappings and its own code while a recording runs.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "base/status.h"
#include "pipeline/drain.h"

namespace brink {

// Opens the ring of one CPU: a software dummy event that never samples but reports mmap2 (with build ids where the
// kernel can), comm, fork, exit, ksymbol, bpf and cgroup events, stamped with CLOCK_MONOTONIC.
// `pages` is lowered step by step where the mlock limit does not allow as many.
StatusOr<std::unique_ptr<PerfRing>> OpenSideBandRing(int cpu, size_t pages);

// Decides which records belong to the target and what they mean. Drain thread only, but for Follow before Start.
class SideBandFilter {
 public:
  struct Callbacks {
    // Executable mappings of a process changed (exited: it ended).
    std::function<void(pid_t tgid, bool exited)> process_changed;
    // The kernel dropped records of a ring.
    std::function<void(uint64_t records)> overflow;
  };
  // `follow_all`: every process is the target. Otherwise those named by Follow and, with `children`, what they fork.
  SideBandFilter(bool follow_all, bool children, Callbacks callbacks)
      : follow_all_(follow_all), children_(children), callbacks_(std::move(callbacks)) {}

  void Follow(pid_t tgid) { followed_.insert(tgid); }
  bool follows(pid_t tgid) const { return follow_all_ || followed_.contains(tgid); }
  // After an overflow: what the followed have forked meanwhile, from /proc. A child whose parent has ended is not found.
  void FollowChildrenInProc();
  // Whether the record goes into the recording; keeps the set up to date.
  bool Take(std::span<const std::byte> record);
  // Once a round, when its records have been taken: lets go of those that have ended, or a storm of short processes would
  // be remembered for ever.
  void ForgetEnded(uint64_t now_ns);
  // Processes followed, for re-reading /proc; empty with follow_all.
  std::vector<pid_t> followed() const { return {followed_.begin(), followed_.end()}; }
  bool follow_all() const { return follow_all_; }

 private:
  bool TakeTask(std::span<const std::byte> record, bool fork);

  bool follow_all_, children_;
  Callbacks callbacks_;
  absl::flat_hash_set<pid_t> followed_;
  // Their first thread has ended; and when the process was first seen to be gone (0: it is still there). Its last records
  // may come for as long as rings are merged.
  absl::flat_hash_map<pid_t, uint64_t> ended_;
};

}  // namespace brink
