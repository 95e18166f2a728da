// Leaves the kernel's addresses out of a recording that others may read: with them they would know where the kernel lies.
//
// Branches lose their end in the kernel and become half entries, those within the kernel unused ones, so that no reader
// joins what was on both sides. Sample addresses and the part of call chains in the kernel go, and so do the records that say
// where the kernel, its modules and BPF programs are. Everything is still counted as a sample.
#pragma once

#include <vector>

#include "pipeline/consumer.h"

namespace brink {

// Like every consumer: called on the writer thread only. `next` outlives it.
class KernelStripper : public Consumer {
 public:
  explicit KernelStripper(Consumer& next) : next_(next) {}

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;
  Status OnTask(const brink_task_event& event) override { return next_.OnTask(event); }
  Status OnRound(uint64_t time_ns) override { return next_.OnRound(time_ns); }
  Status OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) override { return next_.OnLost(cause, loss, time_ns); }
  Settled Settle() override { return next_.Settle(); }
  Status Flush() override { return next_.Flush(); }
  Status Rotate() override { return next_.Rotate(); }
  Status Finish() override { return next_.Finish(); }

 private:
  Consumer& next_;
  std::vector<BranchEntry> entries_;
  std::vector<uint64_t> chain_;
};

}  // namespace brink
