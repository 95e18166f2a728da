// The walk source: branch stacks without branch hardware, executed in BPF (docs/walk.md).
//
// This is the interrupt-mode form: the walk happens in the sampling event. It owns the code cache's maps, the lifting
// service that fills them, and the statistics of both.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "session/source.h"
#include "source/lift_service.h"
#include "source/walk_report.h"

namespace brink {

struct WalkSourceOptions {
  uint32_t depth = 0;                     // branches of a stack; 0: the default of the mode
  uint64_t budget_ns = 20'000;            // of one walk
  uint32_t share_permille = 20;           // most walk time of a CPU
  uint32_t max_steps = 0;                 // 0: from the depth
  uint64_t cache_bytes = size_t{40} << 20;
  uint32_t kind_mask = BRINK_WALK_ALL_KINDS;  // bit = perf branch type
  bool allow_device = false;
};

inline constexpr uint32_t kWalkDefaultDepth = 32;
inline constexpr uint64_t kWalkMaxBudgetNs = 100'000;

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
  void OnProcessChange(pid_t tgid, bool exited) override;
  void Stop() override;
  std::vector<StatLine> Report() override;

 private:
  class Maps;
  explicit WalkSource(const WalkSourceOptions& options);

  WalkSourceOptions options_;
  // Opens, configures, shares and loads one form of the walker.
  Status LoadObject(SourceContext& context, const void* elf, size_t size);

  bpf_object* object_ = nullptr;
  bool scalar_ = false;  // the form without vector registers
  std::unique_ptr<Maps> maps_;
  std::unique_ptr<LiftService> service_;
  uint64_t period_ns_ = 0;

  WalkTally tally_;  // drain thread; read after Stop
};

}  // namespace brink
