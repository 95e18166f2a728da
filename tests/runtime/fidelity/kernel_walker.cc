#include "kernel_walker.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

#include "base/check.h"
#include "pipeline/item.h"

namespace brink::fidelity {

KernelWalker::~KernelWalker() {
  if (source_) source_->Stop();
}

StatusOr<std::unique_ptr<KernelWalker>> KernelWalker::Create(WalkMode mode, uint32_t depth) {
  std::unique_ptr<KernelWalker> made(new KernelWalker);
  BpfCore::Options core = {.config = {.target_mode = BRINK_TARGET_ALL, .flags = BRINK_CFG_SKIP_KERNEL, .depth = depth, .wake_bytes = 4096,
                                      .source = BRINK_SOURCE_WALK},
                           .ring_bytes = 4 << 20};
  ASSIGN_OR_RETURN(made->core_, BpfCore::Load(core));
  made->context_ = std::make_unique<testing_support::CoreContext>(*made->core_);
  // The event's own signal follows the walk: it stops the thread.
  WalkSourceOptions options{.mode = mode, .depth = depth, .share_permille = 0, .wait_permille = 30, .goes_on = true};
  options.try_at_once = mode == WalkMode::kPreferTask;
  options.budget_ns = mode == WalkMode::kInterrupt ? kWalkMaxBudgetNs : kWalkTaskMaxBudgetNs;
  ASSIGN_OR_RETURN(made->source_, WalkSource::Create(options));
  RETURN_IF_ERROR(made->source_->Load(*made->context_));
  RETURN_IF_ERROR(made->source_->Start(*made->context_));
  ASSIGN_OR_RETURN(made->ring_, BpfRing::Map(made->core_->ring_fd(), made->core_->ring_bytes()));
  return made;
}

void KernelWalker::Attach(int event_fd) {
  BRINK_CHECK(::ioctl(event_fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(source_->program())) == 0);
}

Prediction KernelWalker::Predict(const ptrace::Regs& regs, pid_t tid) {
  Prediction out;
  out.end_ip = regs.ip;
  bool missed = false;
  ++counts_.asked;
  // The walk of the last tick may have been dropped; then the ring's last record is of an earlier one.
  BpfCounters counters = core_->ReadCounters();
  uint64_t dropped = counters[BRINK_CNT_LATE] + counters[BRINK_CNT_RECURSION] + counters[BRINK_CNT_RING_FULL];
  bool trusted = std::exchange(dropped_, dropped) == dropped;
  bool found = false;
  ring_->Drain([&](std::span<const std::byte> record) {
    brink_rec_header header;
    std::memcpy(&header, record.data(), sizeof header);
    if (header.type == BRINK_REC_MISS) {
      missed = true;
      source_->OnRecord(record);
    }
    auto view = header.type == BRINK_REC_SAMPLE ? ViewSample(record) : std::nullopt;
    if (!view || view->head->tid != static_cast<uint32_t>(tid)) return;
    found = trusted && view->head->ip == regs.ip;
    if (!found) return;
    out.branches.assign(view->branches.rbegin(), view->branches.rend());
    out.stop = static_cast<brink_stop>(view->head->stop);
    // A walk that did not begin has no end.
    out.end_ip = view->head->end_ip ? view->head->end_ip : regs.ip;
    out.steps = view->head->steps;
  });
  if (!found) {
    out = {};
    out.end_ip = regs.ip;
  }
  counts_.answered += found;
  if (out.stop == BRINK_STOP_DEVICE_MEMORY) ++counts_.refused;
  if (out.stop == BRINK_STOP_CODE_CHANGED) ++counts_.changed;
  // The service lifts while the thread stands here, so that short programs are not all warm-up.
  static const bool emulated = std::getenv("BRINK_EMULATED") != nullptr;
  if (missed) std::this_thread::sleep_for(std::chrono::milliseconds(emulated ? 20 : 2));
  return out;
}

Predictor KernelWalker::predictor() {
  return [this](uint64_t, const ptrace::Regs& regs, decode::Memory& memory) {
    return Predict(regs, static_cast<ptrace::ProcessMemory&>(memory).tid());
  };
}

}  // namespace brink::fidelity
