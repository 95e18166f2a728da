#include "snap/foreign.h"

#include <algorithm>

#include "symbol/address_space.h"

namespace brink::snap {
namespace {

bool InKernel(uint64_t address) { return symbol::AddressSpaces::IsKernel(address); }

bool IsReturnFromKernel(const BranchEntry& entry) { return InKernel(entry.from) && !InKernel(entry.to); }

}  // namespace

std::vector<bool> ForeignBranches(std::span<const BranchEntry> newest_first, const std::function<bool(uint64_t)>& mapped) {
  std::vector<bool> foreign(newest_first.size());
  bool told_apart = false;
  for (const BranchEntry& entry : newest_first) told_apart = told_apart || IsReturnFromKernel(entry);
  size_t end = 0;
  for (size_t begin = 0; begin < newest_first.size(); begin = end) {
    // A run of one task's: user branches, and the return from the kernel that they began with.
    end = begin;
    while (end < newest_first.size() && !InKernel(newest_first[end].from)) ++end;
    const size_t user_end = end;
    size_t first = user_end, last = begin;
    for (size_t i = begin; i < user_end; ++i) {
      const bool into_nothing = i > begin && !InKernel(newest_first[i].to) && !mapped(newest_first[i].to);
      if (mapped(newest_first[i].from) && !into_nothing) continue;
      if (first == user_end) first = i;
      last = i;
    }
    const bool returns = end < newest_first.size() && IsReturnFromKernel(newest_first[end]);
    if (end < newest_first.size()) ++end;
    // The newest of all may be the way to where nothing is.
    const bool back_to_nothing = returns && user_end > 0 && !mapped(newest_first[user_end].to);
    if (first == user_end && !back_to_nothing) continue;
    // Where the hardware does not record returns from the kernel, runs of several tasks are one.
    for (size_t i = told_apart ? begin : first; i < (told_apart ? user_end : last + 1); ++i) foreign[i] = true;
    if (returns) foreign[user_end] = true;
  }
  return foreign;
}

OwnBranches TellOwnBranches(std::span<const BranchEntry> now, std::span<const BranchEntry> left, const std::function<bool(uint64_t)>& mapped) {
  OwnBranches own = {{now.begin(), now.end()}, ForeignBranches(now, mapped), std::nullopt};
  const auto others = static_cast<size_t>(std::find(own.foreign.begin(), own.foreign.end(), true) - own.foreign.begin());
  // Intel's driver empties the hardware when a thread comes back: then what is there is the thread's own, and short.
  if (left.empty() || (others == now.size() && now.size() >= left.size())) return own;
  own.entries.resize(others);
  own.left_at = others;
  const size_t room = BRINK_MAX_HW_BRANCHES - std::min<size_t>(others, BRINK_MAX_HW_BRANCHES);
  const auto before = left.first(std::min(left.size(), room));
  own.entries.insert(own.entries.end(), before.begin(), before.end());
  own.foreign = ForeignBranches(own.entries, mapped);
  return own;
}

}  // namespace brink::snap
