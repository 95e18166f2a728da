// How often this process's CPU groups were throttled, over time: the kernel has no tracepoint for it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace brink::latency {

// nr_throttled of a cpu.stat text; -1 where it has none.
int64_t ParseThrottled(std::string_view text);

// Time of each CPU that the hypervisor has taken, in ns (steps of 10 ms), from /proc/stat; by CPU number.
std::vector<int64_t> ParseSteal(std::string_view proc_stat);

// Numbers over time, read every few milliseconds.
class StealHistory {
 public:
  void Read(int64_t now_ns);
  int64_t Since(int64_t since_ns, int cpu) const;

 private:
  std::deque<std::pair<int64_t, std::vector<int64_t>>> readings_;
};

class ThrottleHistory {
 public:
  // Groups of `pid` on v1 and v2 and of all above them that have a cpu.stat.
  explicit ThrottleHistory(const std::string& pid = "self");
  // Reads now. Call it every few milliseconds.
  void Read(int64_t now_ns);
  // More throttled periods now than at `since_ns` (as of the reading before it).
  int64_t Since(int64_t since_ns) const;
  bool any() const { return !files_.empty(); }

 private:
  std::vector<std::string> files_;
  std::deque<std::pair<int64_t, int64_t>> readings_;  // time, sum
};

}  // namespace brink::latency
