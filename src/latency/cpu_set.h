// CPU sets in libnuma's grammar, which cyclictest's -a and --mainaffinity take: "A,B", "A-C", "A-C:2" (every second),
// "!..." (all but), "+..." (relative to the allowed ones), "all".
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::latency {

// CPUs in ascending order, whatever the text's. A plain set may name any online CPU, whatever this process is allowed
// to use; "!" and "+" are counted within `allowed`. OUT_OF_RANGE-like errors are INVALID_ARGUMENT and name the CPU.
StatusOr<std::vector<int>> ParseCpuSet(std::string_view text, const std::vector<int>& online, const std::vector<int>& allowed);

// CPUs that are online, and those that the calling thread may run on; ascending.
std::vector<int> OnlineCpus();
std::vector<int> AllowedCpus();

}  // namespace brink::latency
