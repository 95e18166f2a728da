// One measuring thread: sleeps until a deadline, reads the clock, keeps what came of it.
//
// The thread allocates nothing and takes no lock while it measures, except for the first break and for --spike records.
// What others read while it runs is in LiveStats (relaxed atomics); everything else is read after Join.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/sync.h"
#include "latency/config.h"
#include "latency/machine_access.h"
#include "latency/result.h"

namespace brink::latency {

inline constexpr int64_t kNoMin = INT64_MAX;
inline constexpr size_t kVerboseRing = 16384;

// Read by the display at any time.
struct alignas(64) LiveStats {
  std::atomic<int32_t> tid{0};
  std::atomic<uint64_t> cycles{0};
  std::atomic<int64_t> min_ns{kNoMin};
  std::atomic<int64_t> max_ns{0};
  std::atomic<int64_t> act_ns{0};
  std::atomic<double> sum_units{0};
  std::atomic<uint64_t> missed{0};
  std::atomic<uint64_t> smi{0};
};

// Told about every wake-up by the thread itself: must neither block nor allocate. Used by --blame.
class WakeObserver {
 public:
  virtual ~WakeObserver() = default;
  // Before the thread sleeps. `deadline` on the chosen clock; `mono` the same instant on CLOCK_MONOTONIC.
  virtual void BeforeSleep(int64_t mono_deadline) = 0;
  // After the clock was read; `now` on CLOCK_MONOTONIC. `smi`: system management interrupts since the call before, where
  // they are counted.
  virtual void AfterWake(int64_t mono_now, uint64_t cycle, uint64_t smi) = 0;
  // Histograms by part (kPartNames), after the thread has ended.
  virtual std::vector<LogHistogram> TakeParts() = 0;
};

// Acts within the sample that broke the limit: marks and stops a trace.
class BreakHook {
 public:
  virtual ~BreakHook() = default;
  virtual void Hit(pid_t tid, int64_t value, int64_t limit) = 0;
};

// Shared by the threads of a run.
struct RunState {
  std::atomic<bool> stop{false};
  UniqueFd stopped;                // eventfd, readable once `stop` was set by Stop()
  std::atomic<int> done{0};        // threads that have finished their loops or time
  std::atomic<int> ready{0};       // threads that are set up
  std::atomic<uint64_t> new_max{0};  // counts new maxima: -M waits for a change
  Mutex spike_lock;
  std::vector<std::pair<int, SpikeRecord>> spikes ABSL_GUARDED_BY(spike_lock);  // reserved to --spike-nodes
  uint64_t spikes_seen ABSL_GUARDED_BY(spike_lock) = 0;
  Mutex break_lock;
  std::optional<Break> broke ABSL_GUARDED_BY(break_lock);
  std::atomic<const char*> ended_by{nullptr};
  BreakHook* break_hook = nullptr;
  pthread_barrier_t barrier;
  int64_t common_start_ns = 0;     // written by thread 0 between the two barriers

  // Ends the run and wakes who waits for its end. From any thread.
  void Stop();
};

class MeasuringThread {
 public:
  MeasuringThread(const Config& config, const ThreadConfig& own, RunState* state, std::unique_ptr<WakeObserver> observer);
  ~MeasuringThread();
  MeasuringThread(const MeasuringThread&) = delete;
  MeasuringThread& operator=(const MeasuringThread&) = delete;

  Status Start();
  // Interrupts the sleep so that `stop` is seen; harmless when repeated. False once the thread has ended.
  bool Kick();
  void Join();

  const LiveStats& live() const { return live_; }
  const ThreadConfig& own() const { return own_; }
  // Why the policy could not be set, "" fine. Valid once state->ready counted this thread.
  const std::string& refused() const { return refused_; }
  // Why the thread ended by itself, "" fine. After Join.
  const std::string& failed() const { return failed_; }
  // After Join.
  ThreadResult TakeResult();

  // -v: calls visit(cycle, value in display units, smi) for what came since the last call.
  struct VerboseSample {
    std::atomic<int64_t> value{0};
    std::atomic<int64_t> smi{0};
  };
  template <typename Visit>
  void DrainVerbose(const Visit& visit) {
    uint64_t end = ring_end_.load(std::memory_order_acquire);
    if (end - ring_read_ > kVerboseRing) {
      lost_verbose_ += end - ring_read_ - kVerboseRing;
      ring_read_ = end - kVerboseRing;
    }
    for (; ring_read_ < end; ++ring_read_) {
      const VerboseSample& sample = ring_[ring_read_ % kVerboseRing];
      visit(ring_read_, sample.value.load(std::memory_order_relaxed), sample.smi.load(std::memory_order_relaxed));
    }
  }

 private:
  static void* Main(void* self);
  void Body();
  void SetUp();
  void Rehearse();
  int64_t FirstDeadline();
  bool SleepUntil(int64_t deadline);
  void Sample(int64_t deadline, int64_t now, int64_t shift, int64_t smi);
  int64_t NewSmis();
  void CountLinear(int64_t ns);
  void KeepWorst(int64_t ns, int64_t now);
  void Record(int64_t units, int64_t now);
  void Finish(const char* why);
  void RaiseBreak(int64_t units);

  const Config& config_;
  ThreadConfig own_;
  RunState* state_;
  std::unique_ptr<WakeObserver> observer_;
  LiveStats live_;
  ThreadResult result_;
  std::vector<VerboseSample> ring_;
  std::atomic<uint64_t> ring_end_{0};
  uint64_t ring_read_ = 0, lost_verbose_ = 0;
  std::optional<SmiCounter> smi_;
  uint64_t smi_last_ = 0;
  timer_t timer_{};
  bool has_timer_ = false;
  uint64_t overruns_ = 0;
  int64_t start_ns_ = 0;
  bool finished_ = false;
  std::string refused_, failed_;
  pthread_t thread_{};
  bool started_ = false;
  std::atomic<bool> ended_{false};
};

// The signal that interrupts a sleep; its handler does nothing. Set up once before the first thread starts.
void InstallKickSignal();

}  // namespace brink::latency
