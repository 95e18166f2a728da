#include "session/kernel_stripper.h"

#include <cstring>
#include <linux/perf_event.h>

namespace brink {
namespace {

constexpr bool InKernel(uint64_t address) { return address >> 63; }

}  // namespace

Status KernelStripper::OnSample(const SampleView& sample) {
  brink_sample head = *sample.head;
  if (InKernel(head.ip)) head.ip = 0;
  if (InKernel(head.end_ip)) head.end_ip = 0;
  entries_.assign(sample.branches.begin(), sample.branches.end());
  for (BranchEntry& entry : entries_) {
    if (InKernel(entry.from)) entry.from = 0;
    if (InKernel(entry.to)) entry.to = 0;
  }
  // Context markers are the last page of the address space: they say that there was a kernel part, not where.
  chain_.clear();
  for (uint64_t address : sample.chain) {
    if (!InKernel(address) || address >= static_cast<uint64_t>(PERF_CONTEXT_MAX)) chain_.push_back(address);
  }
  head.chain_nr = static_cast<decltype(head.chain_nr)>(chain_.size());
  return next_.OnSample({.head = &head, .branches = entries_, .chain = chain_});
}

Status KernelStripper::OnPerfRecord(const PerfRecordView& view) {
  perf_event_header header;
  std::memcpy(&header, view.record.data(), sizeof header);
  const bool mapping = header.type == PERF_RECORD_MMAP || header.type == PERF_RECORD_MMAP2;
  if (mapping && (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) return OkStatus();
  if (header.type == PERF_RECORD_KSYMBOL || header.type == PERF_RECORD_TEXT_POKE) return OkStatus();
  return next_.OnPerfRecord(view);
}

}  // namespace brink
