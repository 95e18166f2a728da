// What the agent may use, and who holds the CPUs' branch filter. Pure: time and use are arguments. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"

namespace brink::agent {

struct Budgets {
  uint64_t max_rate = 1000;                  // captures a second of all snap jobs; also samples a second of all recordings
  double max_cpu_percent = 5;                // of one CPU, the agent's own time
  uint64_t max_bytes = uint64_t{1} << 30;    // of files written since the start
  uint32_t max_jobs = 8, max_clients = 32;
};

// The agent's own CPU time against its budget. Above it everything is paused until the mean over the window is well below.
class CpuGovernor {
 public:
  explicit CpuGovernor(double max_percent) : max_percent_(max_percent) {}
  // `cpu_ns` is the process's CPU time so far. Called a few times a second. Whether to be paused now.
  bool Update(uint64_t now_ns, uint64_t cpu_ns);
  bool paused() const { return paused_; }
  double percent() const { return percent_; }            // mean over the window
  uint64_t paused_ns() const { return paused_ns_; }      // in all
  uint64_t pauses() const { return pauses_; }

  static constexpr uint64_t kWindowNs = 10'000'000'000, kSettleNs = 2'000'000'000;

 private:
  struct Point {
    uint64_t now_ns, cpu_ns;
  };
  double max_percent_;
  std::deque<Point> points_;
  bool paused_ = false;
  double percent_ = 0;
  uint64_t paused_ns_ = 0, pauses_ = 0;
};

// At most `rate` a second, in bursts of at most as many.
class RateBudget {
 public:
  explicit RateBudget(uint64_t rate) : rate_(rate), tokens_(static_cast<double>(rate)) {}
  bool Take(uint64_t now_ns);
  uint64_t refused() const { return refused_; }

 private:
  uint64_t rate_;
  double tokens_;
  uint64_t last_ns_ = 0;
  uint64_t refused_ = 0;
};

// There is one branch filter a CPU. Jobs that hold the same privileges share it.
class FilterArbiter {
 public:
  // `bits`: user and kernel bits of the branch events that a job will hold. ABORTED: "busy: the branch filter u is held
  // by job 3 (client ...)". 0 needs nothing.
  Status Acquire(uint64_t job, const std::string& client, uint64_t bits);
  void Release(uint64_t job) { holders_.erase(job); }
  // "u", "k", "ku" or "" and the jobs that hold it.
  std::string Held() const;

 private:
  struct Holder {
    std::string client;
    uint64_t bits;
  };
  std::map<uint64_t, Holder> holders_;
};

}  // namespace brink::agent
