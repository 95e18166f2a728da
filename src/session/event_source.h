// Sources whose stacks come with the perf event itself: hardware branch records, none at all, or replayed ones (tests).
#pragma once

#include <memory>
#include <vector>

#include "session/source.h"

struct sample_bpf;

namespace brink {

struct ReplayStack {
  uint64_t ip = 0;  // 0: the sample keeps its own
  std::vector<brink_branch> entries;  // newest first, at most BRINK_MAX_HW_BRANCHES
};

class EventSource : public StackSource {
 public:
  // Samples without branch stacks.
  static std::unique_ptr<EventSource> None();
  // Hardware stacks: `branch_sample_type` goes into the event, `depth` is the hardware's.
  static std::unique_ptr<EventSource> Lbr(uint64_t branch_sample_type, uint32_t depth);
  // Tests: each sample takes the next of `stacks` (at most BRINK_REPLAY_STACKS).
  static std::unique_ptr<EventSource> Replay(std::vector<ReplayStack> stacks);
  ~EventSource() override;

  SourceTraits traits() const override { return traits_; }
  Status AmendEvent(perf_event_attr* attr) override;
  Status Load(SourceContext& context) override;
  bpf_program* program() override;
  bpf_program* tracepoint_program() override;

  // Replay only: sends `count` stacks through the BPF path now, from the calling thread, in order (the thread is held on
  // one CPU meanwhile). The count that was tried. `per_second`: not faster than that; 0: as fast as it goes.
  StatusOr<uint64_t> Feed(uint64_t count, uint64_t per_second = 0);
  // Replay only: Load ends with Feed(count), when nobody drains the ring yet.
  void FeedAtLoad(uint64_t count) { feed_at_load_ = count; }

 private:
  explicit EventSource(SourceTraits traits);
  SourceTraits traits_;
  std::vector<ReplayStack> stacks_;
  uint64_t feed_at_load_ = 0;
  sample_bpf* skeleton_ = nullptr;
};

}  // namespace brink
