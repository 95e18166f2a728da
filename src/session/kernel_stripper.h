// Leaves the kernel's addresses out of a recording that others may read: with them they would know where the kernel lies.
//
// Branches lose their end in the kernel and become half entries, those within the kernel unused ones, so that no reader
// joins what was on both sides. Sample addresses and the part of call chains in the kernel go, and so do the records that say
// where the kernel, its modules and BPF programs are. Everything is still counted as a sample.
#pragma once

#include <vector>

#include "session/forwarding_consumer.h"

namespace brink {

class KernelStripper : public ForwardingConsumer {
 public:
  explicit KernelStripper(Consumer& next) : ForwardingConsumer(next) {}

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;

 private:
  std::vector<BranchEntry> entries_;
  std::vector<uint64_t> chain_;
};

}  // namespace brink
