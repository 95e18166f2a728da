// From windows to alarms: keeps the mappings of the processes that it is told of, judges each window with the whole set of
// policies, and learns where threads have their stacks.
//
// The consumer of a session: called on its writer thread only. Windows wait for the end of their round, because the
// mappings of a young process may come after its first window.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/sync.h"
#include "cfi/baseline.h"
#include "cfi/process_map.h"
#include "container/resolver.h"
#include "monitor/alarm.h"
#include "monitor/calls.h"
#include "monitor/policy.h"
#include "pipeline/consumer.h"

namespace brink::cfi {

// Counts of a run, for reports and metrics.
struct JudgeCounts {
  Result totals;  // by policy; violations of the last window only
  uint64_t healed = 0;    // times that a process's mappings were read again because nobody had told of them
  uint64_t left_out = 0;  // windows of processes that a policy file wants judged elsewhere only, or not at all
  uint64_t windows = 0, empty = 0, alarms[4] = {}, suppressed = 0, learned_edges = 0, lost = 0;
  uint64_t busy_ns = 0;  // CPU time of the judging thread
  std::map<std::string, uint64_t> missing;  // files without facts
};

class Judge : public Consumer {
 public:
  struct Options {
    ProcessMapOptions map;
    ContainerHierarchy hierarchy;
    std::string runtime_root;
    const Baseline* baseline = nullptr;
    Baseline* learn = nullptr;
    uint32_t depth = 32;
    bool jit_allowed = false;  // anonymous code is legal
    std::function<bool(uint32_t nr)> confirms;  // whether a call's end says again what its entry has said; nullptr: none does
    std::function<void(const std::string& path)> on_file;  // a file was mapped for the first time in this run
  };
  // `policy` is asked anew for each window, so it may be exchanged while running. `alarm` gets every alarm.
  Judge(Options options, std::function<std::shared_ptr<const PolicyFile>()> policy, std::function<Status(Alarm&&)> alarm);

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;
  Status OnRound(uint64_t time_ns) override { return Release(time_ns); }
  Status OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) override;
  Status Finish() override { return Release(UINT64_MAX); }

  // Any thread.
  JudgeCounts counts() const;

 private:
  struct Waiting {
    uint64_t time_ns = 0;
    bool is_sample = false;
    std::vector<std::byte> bytes;
  };
  struct Process {
    uint64_t start_ns = 0;
    bool known = false;                // by the policy in force
    std::optional<bool> jit = false, makes_code = false;  // with the policy's word, and without; nothing: which program it is, is not known
    std::string main;                  // name of its main thread at a check; another one may be another program
    CallSet judged = CallSet::kAll;   // which of its windows are
    uint32_t uid = ~0u;               // that the policy was asked with
    uint64_t generation = 0;
    uint64_t looked_at = 0;   // generation after /proc was read for mappings that nobody had told of, and 1
    ProcessFacts facts;   // as long as they could be read
    std::string comm;     // of that time: another name is another image
    ContainerFacts container;  // where only /proc tells it
  };
  struct Thread {
    uint64_t start_ns = 0;
    std::vector<uint64_t> stacks;  // starts of mappings
  };

  Status Release(uint64_t before_ns);
  void Observe(std::span<const std::byte> record);
  Status JudgeWindow(std::span<const std::byte> bytes);
  void FollowImage(std::span<const std::byte> record);
  // What /proc says; of a process that has gone, what it said before, and at least the file that it had executed.
  ProcessFacts FactsOf(int32_t pid, uint64_t start_ns);
  // The process with what the policy says of it at a check point.
  const Process& Know(const brink_sample& head, const brink_cfi& context, const std::shared_ptr<const PolicyFile>& policy);
  bool IsLeftOut(const brink_cfi& context, CallSet judged) const;
  bool IsProgramKnown(const brink_sample& head, const brink_cfi& context, const std::string& exe) const;
  void Heal(const brink_sample& head);
  StackPlace PlaceOfStack(const brink_cfi& context, int32_t tid, uint64_t start_ns);
  void VisitStack(const brink_cfi& context, int32_t tid);
  Status Raise(const Window& window, const SampleView& sample, const brink_cfi& context, const PolicyFile& policy);
  ContainerFacts ContainerOf(const brink_sample& head);
  void NameBranches(Alarm* alarm);
  void Describe(const SampleView& sample, Alarm* alarm);

  Options options_;
  std::function<std::shared_ptr<const PolicyFile>()> policy_;
  std::function<Status(Alarm&&)> alarm_;
  ProcessMap map_;
  ContainerResolver containers_;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  absl::flat_hash_map<int32_t, Process> processes_;
  absl::flat_hash_map<int32_t, Thread> threads_;
  absl::flat_hash_map<int32_t, std::string> images_;  // by pid: the executed file; "" exec'd, not mapped yet
  uint64_t side_band_lost_ = 0;
  std::shared_ptr<const PolicyFile> known_by_;  // processes_ is known by this one
  Result totals_;
  mutable Mutex mutex_;
  JudgeCounts counts_ ABSL_GUARDED_BY(mutex_);
};

// The context behind a window's entries; nothing where the record has none or it is malformed.
std::optional<brink_cfi> ContextOf(const SampleView& sample);

}  // namespace brink::cfi
