#include "session/event_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "brink/abi/session.h"  // types that the skeleton names
#include "sample.skel.h"
#include "session/core.h"

namespace brink {
namespace {

// Stacks of one test run: long enough that the system call does not count, short enough for softlockup's patience.
constexpr uint32_t kReplayBatch = 256;

// Keeps the calling thread on the CPU where it is: each CPU counts its place in the replay map by itself.
class StayOnCpu {
 public:
  StayOnCpu() {
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    held_ = sched_setaffinity(0, sizeof(here), &here) == 0;
  }
  ~StayOnCpu() {
    if (held_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  StayOnCpu(const StayOnCpu&) = delete;
  StayOnCpu& operator=(const StayOnCpu&) = delete;

 private:
  cpu_set_t before_;
  bool held_ = false;
};

}  // namespace

EventSource::EventSource(SourceTraits traits) : traits_(std::move(traits)) {}

std::unique_ptr<EventSource> EventSource::None() {
  return std::unique_ptr<EventSource>(new EventSource({.name = "none", .id = BRINK_SOURCE_NONE, .filters_in_bpf = true}));
}

std::unique_ptr<EventSource> EventSource::Lbr(uint64_t branch_sample_type, uint32_t depth) {
  // Filters on kind end contiguity; the privilege bits are the low three.
  bool any = (branch_sample_type & PERF_SAMPLE_BRANCH_ANY) != 0;
  return std::unique_ptr<EventSource>(new EventSource({.name = "lbr", .id = BRINK_SOURCE_LBR, .direction = BRINK_DIR_PAST,
                                                       .contiguous = any, .branch_sample_type = branch_sample_type, .depth = depth, .filters_in_bpf = true}));
}

std::unique_ptr<EventSource> EventSource::Replay(std::vector<ReplayStack> stacks) {
  std::unique_ptr<EventSource> source(new EventSource(
      {.name = "replay", .id = BRINK_SOURCE_REPLAY, .direction = BRINK_DIR_PAST, .contiguous = true,
       .branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE,
       .depth = BRINK_MAX_HW_BRANCHES, .filters_in_bpf = true}));
  source->stacks_ = std::move(stacks);
  return source;
}

EventSource::~EventSource() { sample_bpf__destroy(skeleton_); }

Status EventSource::AmendEvent(perf_event_attr* attr) {
  if (traits_.id == BRINK_SOURCE_LBR) {
    attr->sample_type |= PERF_SAMPLE_BRANCH_STACK;
    attr->branch_sample_type = traits_.branch_sample_type;
  }
  return OkStatus();
}

Status EventSource::Load(SourceContext& context) {
  skeleton_ = sample_bpf__open();
  if (!skeleton_) return BpfLoadError(errno, "open the sampling program");
  RETURN_IF_ERROR(context.Share(skeleton_->obj));
  const bool replay = traits_.id == BRINK_SOURCE_REPLAY;
  bpf_program__set_autoload(skeleton_->progs.brink_replay_run, replay);
  bpf_program__set_autoload(skeleton_->progs.brink_on_tracepoint, context.samples_tracepoints());
  const uint64_t every = context.tracepoint_period();
  RETURN_IF_ERROR(SetRodata(skeleton_->obj, "brink_tracepoint_period", &every, sizeof(every)));
  uint32_t count = static_cast<uint32_t>(std::min<size_t>(stacks_.size(), BRINK_REPLAY_STACKS));
  if (replay) {
    RETURN_IF_ERROR(SetRodata(skeleton_->obj, "brink_replay_count", &count, sizeof(count)));
    RETURN_IF_ERROR(SetRodata(skeleton_->obj, "brink_replay_batch", &kReplayBatch, sizeof(kReplayBatch)));
  } else {
    bpf_map__set_max_entries(skeleton_->maps.brink_replay, 1);
  }
  int error = sample_bpf__load(skeleton_);
  if (error) return BpfLoadError(-error, "load the sampling program");
  for (uint32_t i = 0; i < count; ++i) {
    brink_replay_stack stack = {};
    stack.ip = stacks_[i].ip;
    stack.nr = static_cast<uint32_t>(std::min<size_t>(stacks_[i].entries.size(), BRINK_MAX_HW_BRANCHES));
    std::memcpy(stack.entries, stacks_[i].entries.data(), stack.nr * sizeof(brink_branch));
    error = bpf_map_update_elem(bpf_map__fd(skeleton_->maps.brink_replay), &i, &stack, BPF_ANY);
    if (error) return ErrnoError(-error, "fill the replay map");
  }
  if (feed_at_load_) RETURN_IF_ERROR(Feed(feed_at_load_).status());
  return OkStatus();
}

bpf_program* EventSource::tracepoint_program() {
  // Hardware stacks come with hardware events only.
  return skeleton_ && traits_.id != BRINK_SOURCE_LBR ? skeleton_->progs.brink_on_tracepoint : nullptr;
}

bpf_program* EventSource::program() { return skeleton_ ? skeleton_->progs.brink_on_event : nullptr; }

StatusOr<uint64_t> EventSource::Feed(uint64_t count, uint64_t per_second) {
  LIBBPF_OPTS(bpf_test_run_opts, options);
  StayOnCpu stay;
  uint64_t sent = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (sent < count) {
    if (per_second) std::this_thread::sleep_until(begin + std::chrono::nanoseconds(sent * 1'000'000'000 / per_second));
    int error = bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.brink_replay_run), &options);
    if (error) return ErrnoError(-error, "run the replay program");
    sent += options.retval;
    if (options.retval == 0) return Internal("the replay program sent nothing");
  }
  return sent;
}

}  // namespace brink
