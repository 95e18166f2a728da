// The walker in the kernel as a predictor: the BPF program runs in the very event that stops the thread, and what it
// recorded is compared with what the CPU then does.
#pragma once

#include <memory>

#include "session/core.h"
#include "pipeline/bpf_ring.h"
#include "source/walk_source.h"
#include "support/core_context.h"
#include "truth.h"

namespace brink::fidelity {

class KernelWalker {
 public:
  struct Counts {
    uint64_t asked = 0;     // windows
    uint64_t answered = 0;  // the program had walked there
    uint64_t refused = 0;   // of them: ended by device-memory
    uint64_t changed = 0;   // of them: ended by code-changed
  };

  // kPreferTask: as record does by itself, at once and deferred only where that may get further.
  static StatusOr<std::unique_ptr<KernelWalker>> Create(WalkMode mode, uint32_t depth);
  ~KernelWalker();

  // For Options::on_tick: puts the program on the event.
  void Attach(int event_fd);
  Predictor predictor();
  const Counts& counts() const { return counts_; }

 private:
  KernelWalker() = default;
  Prediction Predict(const ptrace::Regs& regs, pid_t tid);

  std::unique_ptr<BpfCore> core_;
  std::unique_ptr<testing_support::CoreContext> context_;
  std::unique_ptr<WalkSource> source_;
  std::unique_ptr<BpfRing> ring_;
  Counts counts_;
  uint64_t dropped_ = 0;
};

}  // namespace brink::fidelity
