// Whose the entries of a hardware branch stack are. The hardware remembers a CPU's branches: behind the return from an interrupt
// may stand those of whoever ran meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/branch.h"

namespace brink::snap {

// For each entry (newest first) whether another process must have executed it: `mapped` does not know the user address that it
// comes from, or that of one of its neighbours without a return from the kernel in between. An address that the process jumped to
// and where it has nothing is its own mistake: only what comes from there is another's. What is not marked need not be the process's
// own: another's addresses may be mapped here too. Pure.
std::vector<bool> ForeignBranches(std::span<const BranchEntry> newest_first, const std::function<bool(uint64_t)>& mapped);

struct OwnBranches {
  std::vector<BranchEntry> entries;  // newest first, at most BRINK_MAX_HW_BRANCHES
  std::vector<bool> foreign;         // as above
  std::optional<size_t> left_at;     // the first that is from `left`
};

// What is known of a thread's branches: `now`, the hardware's at the event, and `left`, the hardware's when the thread left the CPU
// last (empty: unknown), which takes the place of what others have left since, or goes on where the kernel has emptied the hardware meanwhile.
OwnBranches TellOwnBranches(std::span<const BranchEntry> now, std::span<const BranchEntry> left, const std::function<bool(uint64_t)>& mapped);

}  // namespace brink::snap
