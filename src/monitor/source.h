// The check points of brink cfi run as a source of branch stacks (docs/cfi.md): what a session records are windows, each
// with the context in which it was taken.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/sync.h"

#include "brink/abi/cfi.h"
#include "brink/abi/session.h"
#include "monitor/calls.h"
#include "session/source.h"
#include "snapshot/held_events.h"
#include "source/walk_source.h"

struct bpf_link;

namespace brink::cfi {

using CheckCounts = std::array<uint64_t, BRINK_CFI_CNT_MAX>;
// Checks that could say nothing because their process had not been vetted yet.
inline uint64_t UnvettedChecks(const CheckCounts& counts) { return counts[BRINK_CFI_CNT_MISSES + uint32_t{BRINK_MISS_PROCESS}]; }

// Where the branches of an entry's window come from.
enum class History { kAuto, kWalk, kLbr };

// How the programs come to the calls.
enum class Hook {
  kAuto,   // kCalls where few calls are chosen, or the run stays, and each has its tracepoint
  kRaw,    // one raw tracepoint a side for all calls
  kCalls,  // a tracepoint for each chosen call
};

struct CheckRequest {
  History history = History::kAuto;    // kAuto: the hardware where it proves itself
  CallSet set = CallSet::kSensitive;
  std::vector<std::string> calls;      // --calls
  brink_cfi_config config = {};        // actions and flags; `call` is filled from the above
  bool signals = true;                 // fatal signals
  bool switches = false;               // threads that are preempted
  bool samples = false;                // the session has sampling events
  uint32_t depth = 32;
  uint64_t budget_ns = 0;              // of one walk; 0: the default
  uint32_t share_permille = 50;        // most walk time of a CPU; calls of the sensitive set are never refused
  uint64_t cache_bytes = size_t{96} << 20;
  Hook hook = Hook::kAuto;
  bool stays = false;                  // a run that is to last: what it costs others counts more than how fast it ends
  bool attach_only = false;            // attach the programs and select nothing (measurements)
  std::vector<std::string> warm;       // files whose code is lifted before anything runs
  bool warm_later = false;             // and those of WarmFile
};

class CheckSource : public StackSource {
 public:
  static StatusOr<std::unique_ptr<CheckSource>> Create(CheckRequest request);
  ~CheckSource() override;

  SourceTraits traits() const override;
  Status Load(SourceContext& context) override;
  bpf_program* program() override;
  Status Start(SourceContext& context) override;
  void OnRecord(std::span<const std::byte> record) override { walk_->OnRecord(record); }
  void OnSample(const brink_sample& sample) override { walk_->OnSample(sample); }
  void OnProcessChange(pid_t tgid, bool exited) override { walk_->OnProcessChange(tgid, exited); }
  void OnTick(uint64_t now_ns) override;
  void Stop() override;
  std::vector<StatLine> Report() override;

  // A file that the target has mapped: its code is lifted soon, on a thread of its own. Any thread.
  void WarmFile(const std::string& path);

  CheckCounts counts() const;
  // Whether what a call's entry says waits for the call's end.
  bool Confirms(uint32_t nr) const { return nr < BRINK_CFI_CALLS && (hooked_.call[nr] & BRINK_CFI_WRITES); }
  bool by_calls() const { return !enters_.empty() || !exits_.empty(); }
  bool hardware() const { return held_.has_value(); }
  uint64_t warmed_pages() const { return warmed_.load(); }
  LiftStats lift_stats() const { return walk_->lift_stats(); }

 private:
  CheckSource() = default;
  Status Configure(bpf_object* object) const;
  bool WatchesSigreturn() const;
  Status HoldHardware();
  Status ChooseCheckPoints();
  Status ChooseHook();
  Status AttachCalls(const bpf_program* program, const char* side);
  Status LoadLsm(SourceContext& context);
  void Warm();
  bool WarmOne(const std::string& path);
  void WarmLoop();

  CheckRequest request_;
  std::unique_ptr<WalkSource> walk_;
  std::optional<HeldEvents> held_;
  uint64_t next_refresh_ns_ = 0;
  brink_cfi_config hooked_ = {};                      // `call`: where programs are attached
  std::vector<std::string> enters_, exits_;           // kCalls: their tracepoints
  bpf_object* lsm_ = nullptr;  // where something is to be refused
  std::vector<bpf_link*> links_;
  uint64_t number_ = 1;  // of files
  std::atomic<uint64_t> warmed_{0};
  Mutex mutex_;
  CondVar wake_;
  std::multimap<uint64_t, std::string> waiting_ ABSL_GUARDED_BY(mutex_);  // by size: small files first
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread warmer_;
};

// The program of a command and the libraries that it names, as the dynamic linker will find them; what is not found is
// left out.
std::vector<std::string> FilesOfCommand(const std::string& program);
// Executable files that a process has mapped.
std::vector<std::string> FilesOfProcess(pid_t pid);

}  // namespace brink::cfi
