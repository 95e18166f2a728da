// --blame: the programs in the kernel, an observer in each measuring thread, and reports made while the run goes on.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "latency/blame.h"
#include "latency/blame_bpf.h"
#include "latency/names.h"
#include "latency/occupier.h"
#include "latency/runner.h"
#include "latency/throttle.h"

namespace brink::latency {

struct BlameOptions {
  int64_t limit_ns = 100'000;  // lateness from which a wake-up is explained
  size_t keep = 1000;          // reports; the worst stay
  bool snapshots = true;
  int64_t beat_ns = kBeatNs;   // of the timer on every CPU; 0 none
  // Called in the display thread for each report, before it is kept. May be empty.
  std::function<void(const SpikeReport&)> on_spike;
};

class BlameSession {
 public:
  static StatusOr<std::unique_ptr<BlameSession>> Start(const BlameOptions& options);
  ~BlameSession();

  std::unique_ptr<WakeObserver> Observe(const ThreadConfig& thread, Policy policy);
  // From the late thread itself, on the CPU it is about: copies what is known now. Neither blocks nor allocates.
  struct Wake {
    brink_lat_slot seen = {};
    int64_t deadline = 0, now = 0;
    uint64_t cycle = 0;
    int32_t tid = 0;
    Policy policy = Policy::kOther;
    uint64_t smi = 0;
    bool normal = false;  // within the limit: only its path is kept
  };
  void Submit(const Wake& wake);
  // Turns what the threads left into reports. Display thread only.
  void Tick();
  // Largest lateness first.
  std::vector<SpikeReport> TakeReports();
  // How often each path (PathOf) led to an ordinary wake-up, of those that were looked at.
  const std::map<std::string, uint64_t>& normal_paths() const { return normal_paths_; }
  // Late wake-ups that were not explained because reports are made more slowly than they came.
  uint64_t dropped() const { return dropped_.load(); }
  // For people: what this machine lacks.
  std::vector<std::string> Notices() const;
  LatencyBpf& bpf() { return *bpf_; }

 private:
  friend class BlameObserver;
  static constexpr size_t kPool = 64;
  // One late wake-up on its way from its thread to the reports. Filled by the thread: nothing in it is allocated there.
  struct Parcel {
    std::atomic<int> state{0};  // 0 free, 1 being filled, 2 full
    Wake wake;
    uint32_t cpu = 0;
    size_t events = 0;
    uint64_t faults = 0, reclaim_ns = 0;
    brink_lat_event log[BRINK_LAT_EVENTS];
    brink_lat_capture captures[BRINK_LAT_CAPTURES];
    brink_lat_regs interrupted;
  };

  explicit BlameSession(const BlameOptions& options) : options_(options) {}
  Parcel* Claim();
  Evidence Complete(const Parcel& parcel);
  void WalkInterrupted(const Parcel& parcel, const Names& names, SpikeReport* report);
  void Keep(SpikeReport report);

  BlameOptions options_;
  std::unique_ptr<LatencyBpf> bpf_;
  NameFinder names_;
  OccupierWalker walker_;
  ThrottleHistory throttle_;
  StealHistory steal_;
  std::unique_ptr<Parcel[]> pool_;
  uint64_t ticks_ = 0;
  std::atomic<uint64_t> dropped_{0};
  std::vector<SpikeReport> reports_;
  std::map<std::string, uint64_t> normal_paths_;
};

// Events of a CPU's log that end at or behind `from`, oldest first. The log may move on meanwhile: what was overwritten
// is left out.
std::vector<brink_lat_event> CopyLog(const brink_lat_cpu& cpu, int64_t from);

}  // namespace brink::latency
