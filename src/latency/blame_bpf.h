// The latency programs in the kernel: loaded, attached, their maps mapped into this process.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "brink/abi/latency.h"

struct latency_bpf;

namespace brink {
class HeldEvents;
}

namespace brink::latency {

struct BpfOptions {
  bool snapshots = true;   // branch snapshots where the machine has them
  int64_t beat_ns = 1'000'000;  // period of a timer on every CPU, so that the silence of all of them means something; 0 none
  brink_lat_config watch = {};  // the watch_* fields and block_limit
};

// One owner; readers of the maps in any thread.
class LatencyBpf {
 public:
  static StatusOr<std::unique_ptr<LatencyBpf>> Start(const BpfOptions& options);
  ~LatencyBpf();

  size_t cpus() const { return cpu_count_; }
  const brink_lat_cpu& cpu(size_t index) const { return cpus_[index]; }
  brink_lat_slot& slot(size_t index) { return slots_[index]; }
  // The next free slot is the thread's from now on. Called by the thread or by its starter.
  StatusOr<size_t> Register(pid_t tid);
  Status Unregister(pid_t tid);

  bool snapshots() const { return held_ != nullptr; }
  const std::string& why_no_snapshots() const { return why_no_snapshots_; }
  // Period of the timer that every CPU has, 0: none.
  int64_t beat_ns() const { return beat_ns_; }
  // Tracepoints that this kernel lacks, and what is missing for it.
  const std::vector<std::string>& missing() const { return missing_; }

  // watch: descriptors of its ring and maps; counts of the wake-up histogram, summed over CPUs.
  int spike_ring_fd() const;
  int watch_set_fd() const;
  int watch_stats_fd() const;
  StatusOr<std::vector<uint64_t>> WatchHistogram() const;
  uint64_t lost_spikes() const;

 private:
  LatencyBpf() = default;
  Status Load(const BpfOptions& options);
  Status MapMemory();
  void StartHeartbeat(int64_t period_ns);

  struct latency_bpf* skeleton_ = nullptr;
  size_t cpu_count_ = 0;
  const brink_lat_cpu* cpus_ = nullptr;
  brink_lat_slot* slots_ = nullptr;
  size_t cpus_bytes_ = 0, slots_bytes_ = 0;
  std::atomic<size_t> next_slot_{0};
  std::unique_ptr<HeldEvents> held_;
  std::string why_no_snapshots_;
  std::vector<UniqueFd> beats_;
  int64_t beat_ns_ = 0;
  std::vector<std::string> missing_;
};

}  // namespace brink::latency
