// The walk source: branch stacks without branch hardware, executed in BPF (docs/walk.md).
//
// The walk happens in the sampling event (interrupt mode) or when the thread returns to user space (task mode). The
// source owns the code cache's maps, the lifting service that fills them, and the statistics of both.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "session/source.h"
#include "source/lift_service.h"
#include "source/walk_assist.h"
#include "source/walk_report.h"

namespace brink {

enum class WalkMode {
  kInterrupt,  // in the sampling event: at most BRINK_WALK_IRQ_DEPTH branches and kWalkMaxBudgetNs
  kTask,       // deferred to the thread's return to user space: up to BRINK_MAX_WALK_BRANCHES
  kPreferTask, // task mode, or interrupt mode with a note where task mode does not load
};

// Another object around the same walker (bpf/walk), whose programs its owner attaches.
struct WalkObject {
  using Elf = const void* (*)(size_t* size);
  Elf elf = nullptr, scalar = nullptr;            // interrupt mode; scalar: for verifiers that give up on the vector part
  Elf task = nullptr, task_impl = nullptr;        // task mode, by the kfunc's two spellings
  std::function<Status(bpf_object*)> configure;   // between open and load
};

struct WalkSourceOptions {
  WalkMode mode = WalkMode::kInterrupt;
  uint32_t depth = 0;                     // branches of a stack; 0: the default of the mode
  bool depth_is_wish = false;             // interrupt mode takes as much of it as it can
  uint64_t budget_ns = 0;                 // of one walk; 0: the default of the mode
  uint64_t interrupt_budget_ns = 0;       // in interrupt mode where budget_ns is 0; 0: by the depth
  uint32_t share_permille = 20;           // most walk time of a CPU; 0: no limit
  uint32_t burst_ns = 10'000'000;         // of it what may be used up at once
  uint32_t max_steps = 0;                 // 0: from the depth
  uint64_t cache_bytes = size_t{28} << 20;
  uint32_t kind_mask = BRINK_WALK_ALL_KINDS;  // bit = perf branch type
  bool allow_device = false;
  WalkObject object;  // what is set of it stands for the walk source's own
  std::function<bool(std::span<const uint8_t>, std::vector<uint8_t>*)> restore;  // LiftServiceOptions
  // Task mode: what waits for code and for vector registers may take of a CPU (walk_assist.h), in thousandths; 0: none.
  uint32_t wait_permille = 10;
  uint32_t wait_burst_ns = 60'000'000;
  // Task mode, up to BRINK_WALK_IRQ_DEPTH branches: tried in the sampling event first, deferred only if it could get
  // further. Not on PREEMPT_RT.
  bool try_at_once = false;
  bool goes_on = false;  // the sampling events deliver their own signal or record besides (tests stop threads that way)
};

inline constexpr uint32_t kWalkDefaultDepth = 32;
// What record asks for by itself at so many samples a second (0: a period, whose rate nobody knows). Deep stacks have truer edges,
// so few samples are deep ones, in interrupt mode BRINK_WALK_IRQ_DEPTH at most. Many shallow walks may take less time: each also
// displaces what the target had in its caches, and costs it 1.7 times its own time (docs/walk.md).
struct WalkDefaults {
  uint32_t depth, share_permille, wait_permille;
  bool operator==(const WalkDefaults&) const = default;
};
WalkDefaults WalkDefaultsFor(uint64_t frequency);
// The bursts of what record asks for: a quarter of a second's share of walk time, two seconds' of waits, which come when a program starts.
inline constexpr uint32_t kWalkBurstNsPerPermille = 250'000, kWaitBurstNsPerPermille = 2'000'000;

inline constexpr uint64_t kWalkDefaultBudgetNs = 50'000, kWalkMaxBudgetNs = 100'000;          // interrupts are off
inline constexpr uint64_t kWalkTryBudgetNs = 40'000;
inline constexpr uint64_t kWalkTaskDefaultBudgetNs = 2'000'000, kWalkTaskMaxBudgetNs = 10'000'000;

class WalkSource : public StackSource {
 public:
  static StatusOr<std::unique_ptr<WalkSource>> Create(const WalkSourceOptions& options);
  ~WalkSource() override;

  SourceTraits traits() const override;
  Status Load(SourceContext& context) override;
  bpf_program* program() override;
  Status Start(SourceContext& context) override;
  void OnRecord(std::span<const std::byte> record) override;
  void OnSample(const brink_sample& sample) override;
  uint64_t OldestUnderWay() override;
  void OnProcessChange(pid_t tgid, bool exited) override;
  void Stop() override;
  std::vector<StatLine> Report() override;

  // The loaded object; nullptr before Load.
  bpf_object* object() const { return object_; }
  // What it was told at its load: for further objects around the same walker.
  const brink_walk_config& walk_config() const { return config_; }
  // Lifts a page of code that is to come: 4096 bytes, or with those of the next page behind them. `addresses`: of
  // instructions in it; `object` tells files apart. After Load, any thread. False: there is no room.
  bool Warm(std::span<const uint8_t> code, std::span<const uint64_t> addresses, uint64_t object) {
    return service_->LiftPage(object, code, addresses);
  }
  LiftStats lift_stats() const { return service_ ? service_->stats() : LiftStats{}; }

 private:
  class Maps;
  explicit WalkSource(const WalkSourceOptions& options);

  // Opens, configures, shares and loads one form of the walker.
  Status LoadObject(SourceContext& context, const void* elf, size_t size);
  Status LoadTask(SourceContext& context);
  Status LoadInterrupt(SourceContext& context);
  bool may_be_task() const { return options_.mode != WalkMode::kInterrupt; }

  WalkSourceOptions options_;
  brink_walk_config config_{};
  bpf_object* object_ = nullptr;
  bool assisted_ = false;  // walks may ask for help
  bool scalar_ = false;  // the form without vector registers
  std::vector<std::string> notes_;
  std::unique_ptr<Maps> maps_;
  std::unique_ptr<LiftService> service_;
  std::unique_ptr<WalkAssist> assist_;  // calls service_
  AssistTotals AssistSums() const;
  uint64_t period_ns_ = 0;

  WalkTally tally_;  // drain thread; read after Stop
};

}  // namespace brink
