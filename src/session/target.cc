#include "session/target.h"

#include <algorithm>
#include <set>

#include "kernel/proc_task.h"

namespace brink {
namespace {

constexpr uint64_t kNsPerTick = 10'000'000;

Status CheckCpus(const std::vector<int>& wanted, const std::vector<int>& online) {
  for (int cpu : wanted) {
    if (std::find(online.begin(), online.end(), cpu) == online.end()) {
      return FailedPrecondition("CPU " + std::to_string(cpu) + " is not online (online: see /sys/devices/system/cpu/online)");
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<Target> ResolveTarget(const TargetSpec& spec, const std::vector<int>& online) {
  int kinds = spec.all_cpus + !spec.pids.empty() + !spec.tids.empty() + !spec.cgroups.empty();
  if (kinds > 1) return InvalidArgument("choose one of -a, -p, -t and -G");
  if (kinds == 0 && spec.command.empty() && spec.cpus.empty()) {
    return InvalidArgument("nothing to record: give a command after --, or one of -a, -p, -t, -G, -C");
  }
  Target target;
  RETURN_IF_ERROR(CheckCpus(spec.cpus, online));
  target.cpus = spec.cpus.empty() ? online : spec.cpus;
  if (!spec.pids.empty()) {
    target.kind = TargetKind::kProcesses;
    for (pid_t pid : spec.pids) {
      auto stat = ReadTaskStat(pid);
      if (!stat.ok() || stat->state == 'Z' || stat->state == 'X') return NotFound("process " + std::to_string(pid) + ": no such process");
      ASSIGN_OR_RETURN(pid_t process, ProcessOfThread(pid));
      if (process != pid) {
        return InvalidArgument(std::to_string(pid) + " is a thread of process " + std::to_string(process) + ": use -t for threads");
      }
      target.tasks.push_back({pid, stat->start_ticks});
    }
  } else if (!spec.tids.empty()) {
    target.kind = TargetKind::kThreads;
    for (pid_t tid : spec.tids) {
      ASSIGN_OR_RETURN(pid_t process, ProcessOfThread(tid));
      ASSIGN_OR_RETURN(TaskStat stat, ReadThreadStat(process, tid));
      target.tasks.push_back({tid, stat.start_ticks});
      target.processes.push_back(process);
    }
  } else if (!spec.cgroups.empty()) {
    target.kind = TargetKind::kCgroups;
  } else if (!spec.command.empty() && !spec.all_cpus) {
    target.kind = TargetKind::kCommand;
  }
  if (target.kind == TargetKind::kProcesses) {
    for (const TargetTask& task : target.tasks) target.processes.push_back(task.id);
  }
  std::sort(target.processes.begin(), target.processes.end());
  target.processes.erase(std::unique(target.processes.begin(), target.processes.end()), target.processes.end());
  return target;
}

CpuTime ReadCpuTime(const std::vector<pid_t>& processes) {
  CpuTime time;
  for (pid_t pid : processes) {
    auto stat = ReadTaskStat(pid);
    if (!stat.ok()) continue;
    time.user_ns += stat->user_ticks * kNsPerTick;
    time.system_ns += stat->system_ticks * kNsPerTick;
  }
  return time;
}

}  // namespace brink
