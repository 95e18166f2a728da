#include "kernel/proc_task.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

constexpr uint64_t kNsPerTick = 10'000'000;  // USER_HZ is 100 on every architecture that brink runs on
constexpr uint64_t kKernelThreadFlag = 0x00200000;  // PF_KTHREAD

template <typename T>
bool Number(std::string_view text, T* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<pid_t> ListIds(const std::string& folder) {
  std::vector<pid_t> ids;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (!dir) return ids;
  while (const dirent* entry = readdir(dir.get())) {
    pid_t id;
    if (Number(std::string_view(entry->d_name), &id)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

StatusOr<TaskStat> ReadStat(const std::string& path) {
  auto text = ReadFile(path);
  if (!text.ok()) return NotFound(path.substr(6) + ": no such process");
  auto stat = ParseTaskStat(*text);
  if (!stat) return DataLoss(path + ": not understood");
  return *stat;
}

}  // namespace

std::optional<TaskStat> ParseTaskStat(std::string_view text) {
  TaskStat stat;
  size_t open = text.find(" ("), close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  if (!Number(text.substr(0, open), &stat.id)) return std::nullopt;
  stat.comm = std::string(text.substr(open + 2, close - open - 2));
  std::vector<std::string_view> fields = Split(Trim(text.substr(close + 2)), ' ');
  uint64_t flags = 0;
  // Field 3 of proc(5), the state, is fields[0].
  if (fields.size() < 20 || fields[0].size() != 1 || !Number(fields[1], &stat.parent) || !Number(fields[6], &flags) ||
      !Number(fields[11], &stat.user_ticks) || !Number(fields[12], &stat.system_ticks) || !Number(fields[19], &stat.start_ticks)) {
    return std::nullopt;
  }
  stat.state = fields[0][0];
  stat.kernel_thread = (flags & kKernelThreadFlag) != 0;
  return stat;
}

StatusOr<TaskStat> ReadTaskStat(pid_t pid) { return ReadStat("/proc/" + std::to_string(pid) + "/stat"); }

StatusOr<TaskStat> ReadThreadStat(pid_t pid, pid_t tid) {
  return ReadStat("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat");
}

std::vector<pid_t> ListProcesses() { return ListIds("/proc"); }

std::vector<pid_t> ListThreads(pid_t pid) { return ListIds("/proc/" + std::to_string(pid) + "/task"); }

StatusOr<pid_t> ProcessOfThread(pid_t tid) {
  auto text = ReadFile("/proc/" + std::to_string(tid) + "/status");
  if (!text.ok()) return NotFound("thread " + std::to_string(tid) + ": no such thread");
  for (std::string_view line : Split(*text, '\n')) {
    pid_t tgid;
    if (line.substr(0, 5) == "Tgid:" && Number(Trim(line.substr(5)), &tgid)) return tgid;
  }
  return DataLoss("/proc/" + std::to_string(tid) + "/status: no Tgid");
}

BusyTime ParseBusyTime(std::string_view proc_stat, const std::vector<int>& cpus) {
  BusyTime busy;
  for (std::string_view line : Split(proc_stat, '\n')) {
    std::vector<std::string_view> fields = Split(line, ' ');
    int cpu;
    if (fields[0].substr(0, 3) != "cpu" || !Number(fields[0].substr(3), &cpu)) continue;
    if (!cpus.empty() && std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) continue;
    auto ns = [&](size_t i) {
      uint64_t value = 0;
      return i < fields.size() && Number(fields[i], &value) ? value * kNsPerTick : 0;
    };
    // user nice system idle iowait irq softirq steal: idle, iowait and steal are nobody's work here.
    busy.user_ns += ns(1) + ns(2);
    busy.system_ns += ns(3) + ns(6) + ns(7);
  }
  return busy;
}

StatusOr<BusyTime> ReadBusyTime(const std::vector<int>& cpus) {
  ASSIGN_OR_RETURN(std::string text, ReadFile("/proc/stat"));
  return ParseBusyTime(text, cpus);
}

}  // namespace brink
