// One recording from BPF to a consumer: open, configure, load, attach, drain, stop, with one cleanup.
//
//   auto session = Session::Create(spec, std::move(source), consumer);   // forks the command, loads everything
//   session->Arm();                                                      // enables the events, lets the command run
//   ... wait: command ended, signal, duration, session->failed_fd() ...
//   session->Stop();                                                     // detach, drain to empty, finish, join
//   session->books(), session->notes()
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/sync.h"
#include "kernel/perf_parse.h"
#include "pipeline/consumer.h"
#include "pipeline/drain.h"
#include "pipeline/ledger.h"
#include "pipeline/writer_thread.h"
#include "session/child.h"
#include "session/core.h"
#include "session/run_cgroup.h"
#include "session/sampling.h"
#include "session/side_band.h"
#include "session/source.h"
#include "session/target.h"

namespace brink {

struct SessionSpec {
  TargetSpec target;
  std::vector<EventSpec> events;         // at least one, unless the source needs none
  uint64_t frequency = 0, period = 0;    // one of them
  bool chain_user = false, chain_kernel = false;
  uint32_t depth = 0;                    // most entries kept of a stack; 0: all
  size_t ring_bytes = 8u << 20;          // BPF ring
  size_t side_band_pages = 128;          // of each CPU's side-band ring
  size_t buffers = 16, buffer_size = 1u << 20;
  WriterOptions writer;
  std::optional<brink_filter_prog> filter;  // evaluated in BPF; only for sources whose traits say filters_in_bpf
  bool enable = true;                    // false: Arm leaves the events disabled until Enable (-D)
  bool command_stdout_to_stderr = false;
  // Set: everything else is given up for good once all is loaded and opened (kernel/privileges.h). For a process whose
  // only work is this session.
  std::optional<std::vector<int>> keep_capabilities;
};

// A command that could not be executed: the exit status that shells give it, and why.
struct ExecFailure {
  int status = 0;  // 127 not found, 126 anything else
  std::string error;
};

// A sink that keeps records in memory.
class SavedRecords : public RecordSink {
 public:
  bool PutPerfRecord(std::span<const std::byte> record) override {
    records_.emplace_back(record.begin(), record.end());
    return true;
  }
  void PutLost(LossCause, const Loss&, uint64_t) override {}
  void Replay(RecordSink& sink) const {
    for (const auto& record : records_) sink.PutPerfRecord(record);
  }

 private:
  std::vector<std::vector<std::byte>> records_;
};

class Session : private SourceContext, private DrainHandler {
 public:
  // `consumer` outlives the session. Order inside: resolve the target, fork the command, side-band rings, BPF, events
  // (disabled), threads, what /proc knows.
  static StatusOr<std::unique_ptr<Session>> Create(const SessionSpec& spec, std::unique_ptr<StackSource> source, Consumer& consumer);
  // Stops if that has not been done.
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Enables the events and releases the command. An error of its exec keeps the errno (see CommandChild::Release).
  Status Arm();
  // Arm for runs whose command may not be there: what its exec said instead of an error, with the command reaped.
  StatusOr<std::optional<ExecFailure>> ArmCommand();
  Status Enable();
  // Until the next Enable nothing is sampled.
  void Disable() { events_.Disable(); }
  void Flush() { drain_->Request(Control::kFlush); }
  void Rotate() { drain_->Request(Control::kRotate); }
  // The orderly end; the consumer's first error. A second call returns the same.
  Status Stop();

  // Readable once the consumer has failed: the session should be stopped.
  int failed_fd() const { return failed_.get(); }
  CommandChild* command() { return child_.get(); }
  const Target& target() const { return target_; }
  // CPUs that came or went since the last call: opens and closes their events. Called about once a second.
  void FollowHotplug();
  // Whether any process of the target is alive; always true for CPUs and cgroups.
  bool TargetAlive() const;

  // Exact after Stop.
  Books books() const;
  BpfCounters counters() const;
  // CPU time of the target within the recording, where it can be known.
  std::optional<CpuTime> busy() const { return busy_; }
  // How it was done, and what could not be had: for the report ("cgroup made for the run", "inherited events: ...").
  const std::vector<std::string>& notes() const { return notes_; }
  StackSource& source() { return *source_; }
  const BufferPool& pool() const { return *pool_; }
  uint64_t armed_ns() const { return armed_ns_; }
  uint64_t stopped_ns() const { return stopped_ns_; }

 private:
  Session() = default;
  Status Init(const SessionSpec& spec, std::unique_ptr<StackSource> source, Consumer& consumer);
  Status ForkCommand();
  Status ChooseMode(brink_bpf_config* config);
  Status OpenSideBand();
  Status LoadBpf(const brink_bpf_config& config);
  Status AddCpu(int cpu);
  void RemoveCpu(int cpu);
  void TellOnce(int cpu, const Status& why);
  void FallBackToInherit(const std::string& why);
  SamplingPlan Plan() const;
  Status StartThreads(Consumer& consumer);
  void Synthesize(RecordSink& sink, uint64_t time_ns);
  std::vector<pid_t> KnownProcesses() const;
  CpuTime ReadTargetTime() const;

  // SourceContext
  Status Share(bpf_object* object) override { return core_->Share(object); }
  bool Inject(std::span<const std::byte> record) override { return drain_->Inject(record); }
  const std::vector<pid_t>& target_pids() const override { return target_.processes; }
  pid_t command_pid() const override { return child_ ? child_->pid() : 0; }
  const std::vector<int>& cpus() const override { return target_.cpus; }
  uint64_t period_ns() const override;
  bool samples_tracepoints() const override;
  uint64_t tracepoint_period() const override { return spec_.period ? spec_.period : 1; }

  // DrainHandler
  void OnSideBandDropped(uint64_t records) override;
  void OnSideBand(std::span<const std::byte> record, RecordSink& sink) override;
  void OnSample(const brink_sample& sample) override;
  void OnOtherRecord(std::span<const std::byte> record) override;
  void OnTick(uint64_t now_ns, bool last, RecordSink& sink) override;
  uint64_t OldestUnderWay() override;
  void OnRotating() override;
  void OnNewFile(RecordSink& sink) override;

  SessionSpec spec_;
  Target target_;
  std::vector<std::string> notes_;
  SessionMounts mounts_;
  bool inherit_ = false;

  std::unique_ptr<CommandChild> child_;
  bool not_executed_ = false;
  std::unique_ptr<RunCgroup> run_cgroup_;
  std::vector<UniqueFd> cgroups_;
  std::unique_ptr<StackSource> source_;
  std::unique_ptr<BpfCore> core_;
  std::unique_ptr<BpfRing> ring_;
  SamplingEvents events_;

  std::unique_ptr<SideBandFilter> filter_;
  std::vector<std::unique_ptr<PerfRing>> first_rings_;  // until the drain has them
  std::map<int, int> ring_of_cpu_;                      // CPU -> fd of its side-band ring
  std::set<int> unfollowed_;                            // CPUs whose reason has been told
  std::set<int> unsampled_;                             // CPUs with a ring and without sampling events yet
  std::atomic<bool> cpu_came_ = false;                  // from the loop to the drain thread
  uint64_t side_band_overflows_ = 0;                    // drain thread
  uint64_t resynced_ = 0;                               // drain thread: overflows already answered
  std::map<pid_t, SavedRecords> before_rotation_;       // drain thread
  SavedRecords programs_before_rotation_;               // drain thread: BPF programs, which may be unloaded meanwhile
  Books told_;                                          // drain thread: losses already put into the stream
  uint64_t counted_ns_ = 0;                             // drain thread

  UniqueFd failed_;
  Ledger ledger_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<WriterThread> writer_;
  bool running_ = false, stopped_ = false;
  Status stop_status_;

  CpuTime time_before_;
  std::optional<CpuTime> busy_;
  std::atomic<uint64_t> armed_ns_ = 0;  // the drain reads it
  uint64_t stopped_ns_ = 0;
};

}  // namespace brink
