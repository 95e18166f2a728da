#include "latency/throttle.h"

#include <unistd.h>

#include <cstdio>

#include "base/strings.h"
#include "base/units.h"
#include "kernel/cgroup_hierarchies.h"

namespace brink::latency {

int64_t ParseThrottled(std::string_view text) {
  for (std::string_view line : Split(text, '\n')) {
    constexpr std::string_view kKey = "nr_throttled ";
    if (!line.starts_with(kKey)) continue;
    auto value = ParseUint(line.substr(kKey.size()));
    return value.ok() ? static_cast<int64_t>(*value) : -1;
  }
  return -1;
}

std::vector<int64_t> ParseSteal(std::string_view proc_stat) {
  constexpr int64_t kTickNs = 10'000'000;
  std::vector<int64_t> steal;
  for (std::string_view line : Split(proc_stat, '\n')) {
    int cpu = -1;
    unsigned long values[8] = {};
    std::string text(line);
    if (std::sscanf(text.c_str(), "cpu%d %lu %lu %lu %lu %lu %lu %lu %lu", &cpu, &values[0], &values[1], &values[2], &values[3], &values[4], &values[5], &values[6], &values[7]) != 9 || cpu < 0 || cpu > 65535) continue;
    if (steal.size() <= static_cast<size_t>(cpu)) steal.resize(static_cast<size_t>(cpu) + 1);
    steal[static_cast<size_t>(cpu)] = static_cast<int64_t>(values[7]) * kTickNs;
  }
  return steal;
}

void StealHistory::Read(int64_t now_ns) {
  auto text = ReadFile("/proc/stat");
  if (!text.ok()) return;
  readings_.push_back({now_ns, ParseSteal(*text)});
  while (readings_.size() > 256) readings_.pop_front();
}

int64_t StealHistory::Since(int64_t since_ns, int cpu) const {
  auto of = [cpu](const std::vector<int64_t>& all) { return static_cast<size_t>(cpu) < all.size() ? all[static_cast<size_t>(cpu)] : 0; };
  if (readings_.empty() || cpu < 0) return 0;
  int64_t before = of(readings_.front().second);
  for (const auto& [when, all] : readings_) {
    if (when > since_ns) break;
    before = of(all);
  }
  return of(readings_.back().second) - before;
}

ThrottleHistory::ThrottleHistory(const std::string& pid) {
  auto mounts = ReadFile("/proc/self/mountinfo");
  auto own = ReadFile("/proc/" + pid + "/cgroup");
  if (!mounts.ok() || !own.ok()) return;
  CgroupHierarchies all = CgroupHierarchies::Parse(*mounts, *own);
  auto add = [&](const std::string& mount, std::string path) {
    while (true) {
      std::string file = mount + path + "/cpu.stat";
      auto text = ReadFile(file, 1 << 16);
      if (text.ok() && ParseThrottled(*text) >= 0) files_.push_back(file);
      size_t slash = path.rfind('/');
      if (path.size() <= 1 || slash == std::string::npos) return;
      path.resize(slash);
    }
  };
  if (!all.v2.empty()) add(all.v2, all.own_v2_path);
  for (const auto& hierarchy : all.v1) {
    for (std::string_view controller : Split(hierarchy.controllers, ',')) {
      if (controller == "cpu") add(hierarchy.mount, hierarchy.own_path);
    }
  }
}

void ThrottleHistory::Read(int64_t now_ns) {
  if (files_.empty()) return;
  int64_t sum = 0;
  for (const std::string& file : files_) {
    auto text = ReadFile(file, 1 << 16);
    if (text.ok()) sum += std::max<int64_t>(0, ParseThrottled(*text));
  }
  readings_.push_back({now_ns, sum});
  while (readings_.size() > 1024) readings_.pop_front();
}

int64_t ThrottleHistory::Since(int64_t since_ns) const {
  if (readings_.empty()) return 0;
  int64_t before = readings_.front().second;
  for (const auto& [when, sum] : readings_) {
    if (when > since_ns) break;
    before = sum;
  }
  return readings_.back().second - before;
}

}  // namespace brink::latency
