// What Linux's BRBE driver makes of a record: the mapping to perf's branch entries.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "brbe/record.h"
#include "filter/branch_flags.h"

namespace brink::brbe {

struct LinuxOptions {
  uint64_t branch_bits = filter::kBranchAny | filter::kBranchUser | filter::kBranchKernel;
  bool vhe = false;    // EL2 is the kernel; otherwise a hypervisor
  // As the driver does it: debug, FIQ and EL3 records are lost, because their perf type is 0. Off: they get perf's
  // arm64 types (EXTEND_ABI with ARCH_1..5), which the driver never emits.
  bool quirks = true;
};

// The entry, or nothing where the driver drops the record (invalid, type or privilege not asked for).
std::optional<BranchEntry> ToPerf(const Record& record, const LinuxOptions& options);

// A whole buffer, newest first, as a branch stack: reading stops at the first invalid record.
std::vector<BranchEntry> ToPerf(std::span<const Record> records, const LinuxOptions& options);

}  // namespace brink::brbe
