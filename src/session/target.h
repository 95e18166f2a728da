// What is recorded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/cpu_time.h"

namespace brink {

enum class TargetKind { kAllCpus, kProcesses, kThreads, kCgroups, kCommand };

struct TargetSpec {
  bool all_cpus = false;             // -a
  std::vector<pid_t> pids;           // -p
  std::vector<pid_t> tids;           // -t
  std::vector<std::string> cgroups;  // -G
  std::vector<std::string> command;  // after --; with another target it only bounds the recording's time
  std::vector<int> cpus;             // -C; empty: all online ones
  // The cgroup made for a command: yes, no, or where it can be had.
  enum class Group { kAuto, kOn, kOff } run_cgroup = Group::kAuto;
  bool follow_children = true;  // perf's -i turns it off
  bool inherit_only = false;  // the fall-back by choice: inherited per-task events
};

// A thread with its start, as the BPF set wants it.
struct TargetTask {
  pid_t id = 0;
  uint64_t start_ticks = 0;
};

struct Target {
  TargetKind kind = TargetKind::kAllCpus;
  std::vector<TargetTask> tasks;  // processes or threads, alive when resolved
  std::vector<pid_t> processes;   // the processes of `tasks`
  std::vector<int> cpus;          // to be sampled
};

// Checks the request: one kind of target, CPUs that are online, processes that exist. A command makes kCommand unless
// another target is given. Errors are one line each.
StatusOr<Target> ResolveTarget(const TargetSpec& spec, const std::vector<int>& online);

// CPU time that processes have used so far (threads that ended included).
CpuTime ReadCpuTime(const std::vector<pid_t>& processes);

}  // namespace brink
