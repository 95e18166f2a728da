// The flight recorder: the last seconds of stacks of each CPU, in memory, and what names them; written out on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/sync.h"
#include "perfdata/writer.h"
#include "pipeline/consumer.h"
#include "session/file_consumer.h"

namespace brink::agent {

struct FlightLimits {
  uint64_t window_ns = 10'000'000'000;  // samples older than this, by their CPU's newest, go
  uint64_t bytes = 64u << 20;           // of all CPUs' samples; each has its share
  uint64_t side_band_bytes = 64u << 20; // mappings and names; the processes that ended first go first
};

struct FlightFacts {
  uint64_t samples = 0, bytes = 0, side_band_bytes = 0;  // held now
  uint64_t span_ns = 0;                                   // from the oldest to the newest held
  uint64_t seen = 0;                                      // in all
  uint64_t evicted_by_size = 0;                           // younger than the window, and gone all the same
  uint64_t compacted = 0;                                 // processes whose records were read anew from /proc
};

// Consumer of the flight session: calls come from its writer thread. facts() and Take from any.
class FlightRecorder : public Consumer {
 public:
  FlightRecorder(const FlightLimits& limits, size_t cpus);

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;
  Status OnRound(uint64_t time_ns) override;
  Status Finish() override { return OkStatus(); }

  FlightFacts facts() const;

  // A copy of what is held: samples by time, with the records that name them before.
  struct Kept {
    std::vector<std::byte> bytes;
    SideBandId id = {};  // side-band only
  };
  struct Tape {
    std::vector<Kept> side_band, samples;
    uint64_t until_ns = 0;
  };
  // Waits until everything older than `time_ns` has come in, at most `wait_ns`.
  Tape Take(uint64_t time_ns, uint64_t wait_ns);

 private:
  struct Process {
    std::vector<Kept> records;
    uint64_t bytes = 0;
    uint64_t ended_ns = 0;  // 0: lives
  };
  struct Cpu {
    std::deque<Kept> samples;
    std::deque<uint64_t> times;
    uint64_t bytes = 0;
  };
  void TrimCpu(Cpu* cpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropEnded(uint64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Compact(pid_t pid, Process* process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FlightLimits limits_;
  const uint64_t cpu_bytes_;
  mutable Mutex mutex_;
  CondVar round_;
  std::map<uint32_t, Cpu> cpus_ ABSL_GUARDED_BY(mutex_);
  std::map<pid_t, Process> processes_ ABSL_GUARDED_BY(mutex_);  // -1: the kernel's and what belongs to nobody
  uint64_t side_band_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_drop_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  FlightFacts facts_ ABSL_GUARDED_BY(mutex_);
};

// Writes a tape as perf.data. `file` has path and events. Samples written.
StatusOr<uint64_t> WriteTape(const FlightRecorder::Tape& tape, FileSpec file);

}  // namespace brink::agent
