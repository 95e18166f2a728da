// perf constants that are newer than the headers brink builds with. Values are kernel ABI and never change.
#pragma once

#include <cstdint>
#include <linux/perf_event.h>

namespace brink {

inline constexpr uint64_t kBranchPlmAll = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_HV;
inline constexpr uint64_t kBranchTypeSave = 1u << 16;  // 4.14
inline constexpr uint64_t kBranchHwIndex = 1u << 17;   // 5.7
inline constexpr uint64_t kBranchPrivSave = 1u << 18;  // 6.1
inline constexpr uint64_t kBranchCounters = 1u << 19;  // 6.8

}  // namespace brink
