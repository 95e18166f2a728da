// The drain thread: empties the kernel's rings into buffers and hands them to the writer.
//
// It never waits for the writer. Each round drains the side-band rings first, then the BPF ring, both up to what was
// there when the round began; then a round mark says up to which time everything has come out.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "base/sync.h"
#include "pipeline/bpf_ring.h"
#include "pipeline/ledger.h"
#include "pipeline/perf_ring.h"
#include "pipeline/pool.h"
#include "pipeline/side_band_merge.h"

namespace brink {

// Where handlers of the drain put perf records (live or synthesised). Drain thread only.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // A whole record with its SideBandId trailer. False: no clean buffer (counted).
  virtual bool PutPerfRecord(std::span<const std::byte> record) = 0;
  virtual void PutLost(LossCause cause, const Loss& loss, uint64_t time_ns) = 0;
};

// What the session does with what the drain finds. Drain thread; quick.
class DrainHandler {
 public:
  virtual ~DrainHandler() = default;
  // A record of a side-band ring; what is to be kept goes into `sink`, changed or not.
  virtual void OnSideBand(std::span<const std::byte> record, RecordSink& sink) = 0;
  // The kernel dropped records of a side-band ring and has not said so in the ring. `records`: how many, when it will not
  // any more (the last round), else 0.
  virtual void OnSideBandDropped(uint64_t /*records*/) {}
  // A sample, before it goes its way; for statistics.
  virtual void OnSample(const brink_sample& /*sample*/) {}
  // Any record of the BPF ring that is no sample.
  virtual void OnOtherRecord(std::span<const std::byte> record) = 0;
  // After each round; `last`: producers are quiet and everything has been drained.
  virtual void OnTick(uint64_t now_ns, bool last, RecordSink& sink) = 0;
  // Time of the oldest sample that is still on its way into the ring; asked before the ring is emptied.
  virtual uint64_t OldestUnderWay() { return UINT64_MAX; }
  // A new file will begin after the next round: the last moment to look at processes that may end meanwhile.
  virtual void OnRotating() = 0;
  // The writer goes on in a new file from here: what it must know beforehand goes into `sink`.
  virtual void OnNewFile(RecordSink& sink) = 0;
};

struct DrainOptions {
  uint64_t interval_ns = 100'000'000;  // longest sleep between two rounds
  // Longest way of a record from its time stamp into its ring, counted from the oldest that is known to be under way
  // (it may hold up others, behind it in the ring). Covers a virtual CPU that is not scheduled.
  uint64_t max_delay_ns = 20'000'000;
  size_t inject_limit = 8u << 20;      // bytes of injected records that may wait
};

class Drain : private RecordSink {
 public:
  // All outlive the drain; `ring` may be nullptr (user-space sources).
  Drain(BufferPool& pool, Ledger& ledger, BpfRing* ring, int ring_fd, DrainHandler& handler, const DrainOptions& options);
  ~Drain() override;

  Status Start();
  // Another side-band ring, before or after Start.
  Status AddPerfRing(std::unique_ptr<PerfRing> ring);
  // Drops the ring of a CPU that has gone: it is drained once more. `fd` as PerfRing::fd().
  void RemovePerfRing(int fd);
  // The writer is told after everything that was in the rings at the call.
  void Request(Control control);
  // From any thread (SourceContext::Inject).
  bool Inject(std::span<const std::byte> record);
  // Wakes the thread for a round now.
  void Kick();
  // Producers are quiet: drains to empty, hands over the rest, puts the stop token and joins. Once.
  void Stop();
  bool started() const { return epoll_.valid(); }
  // Runs `work` with the sink before Start: the first records of a file. Only here a full pool is waited for (the
  // writer runs), because the rings can wait too.
  template <typename Fn>
  void WithSink(Fn work) {
    patient_ = true;
    work(static_cast<RecordSink&>(*this));
    HandOver();
    patient_ = false;
  }

 private:
  void Run();
  void Round(bool last);
  // Records up to `until_ns` go to the handler, of all rings in order of time.
  void DrainSideBand(uint64_t until_ns);
  void DrainBpf();
  void DrainInjected();
  void TakeRingRecord(std::span<const std::byte> record);
  // Room for an item in the current buffer, changing buffers as needed; nullptr: none clean. The last clean buffer is
  // not for samples: without its mappings no sample is worth anything.
  std::byte* Room(size_t size, bool sample = false);
  bool PutPerfRecord(std::span<const std::byte> record) override;
  void PutLost(LossCause cause, const Loss& loss, uint64_t time_ns) override;
  void HandOver();

  BufferPool& pool_;
  Ledger& ledger_;
  BpfRing* ring_;
  int ring_fd_;
  DrainHandler& handler_;
  DrainOptions options_;

  UniqueFd epoll_, wake_;
  std::thread thread_;
  std::unique_ptr<Buffer> current_;  // drain thread
  SideBandMerge merge_;              // drain thread
  bool current_reserved_ = false;    // drain thread: `current_` is the one kept for side-band records
  uint64_t last_mark_end_ns_ = 0;    // drain thread
  bool patient_ = false;             // before Start

  Mutex mutex_;
  std::vector<std::shared_ptr<PerfRing>> perf_rings_ ABSL_GUARDED_BY(mutex_);
  std::vector<Control> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> injected_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// CLOCK_MONOTONIC.
uint64_t MonotonicNs();

}  // namespace brink
