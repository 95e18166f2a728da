// Processes and threads as /proc shows them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink {

struct TaskStat {
  pid_t id = 0;
  pid_t parent = 0;
  std::string comm;
  char state = '?';
  bool kernel_thread = false;
  uint64_t user_ticks = 0, system_ticks = 0;  // of 10 ms; of the whole process for /proc/PID/stat
  uint64_t start_ticks = 0;                   // since boot, of 10 ms
};

// The text of a stat file. comm may hold blanks and parentheses.
std::optional<TaskStat> ParseTaskStat(std::string_view text);
// NOT_FOUND when there is no such process (or thread: its own id works too).
StatusOr<TaskStat> ReadTaskStat(pid_t pid);
StatusOr<TaskStat> ReadThreadStat(pid_t pid, pid_t tid);

// In ascending order.
std::vector<pid_t> ListProcesses();
// Threads of `pid`; empty when it is gone.
std::vector<pid_t> ListThreads(pid_t pid);
// The process that thread `tid` belongs to; NOT_FOUND when it is gone.
StatusOr<pid_t> ProcessOfThread(pid_t tid);

// Time in ns that CPUs spent on work since boot (not idle, not waiting, not stolen), of those given; of all when empty.
struct BusyTime {
  uint64_t user_ns = 0, system_ns = 0;
};
BusyTime ParseBusyTime(std::string_view proc_stat, const std::vector<int>& cpus);
StatusOr<BusyTime> ReadBusyTime(const std::vector<int>& cpus);

}  // namespace brink
