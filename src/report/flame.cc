#include "report/flame.h"

namespace brink::report {

bool FlameBuilder::Step(uint32_t function, uint32_t* at) {
  auto found = nodes_[*at].children.find(function);
  if (found == nodes_[*at].children.end()) {
    if (nodes_.size() >= kMaxNodes) return false;
    uint32_t index = static_cast<uint32_t>(nodes_.size());
    nodes_[*at].children.emplace(function, index);
    nodes_.push_back({.function = function});
    *at = index;
  } else {
    *at = found->second;
  }
  ++nodes_[*at].count;
  return true;
}

void FlameBuilder::OnStack(const SampleView& sample, const CleanStack& stack) {
  const bool future = sample.direction == BRINK_DIR_FUTURE;
  const size_t count = stack.entries.size();
  ++nodes_[0].count;
  uint32_t at = 0, last = function_of_(sample.pid, sample.ip);
  size_t depth = 1;
  if (!Step(last, &at)) return;
  // From the sample outwards: the newest entry first when it led here, the oldest first when it follows.
  for (size_t i = 0; i < count && depth < kMaxDepth; ++i) {
    const BranchEntry& entry = stack.entries[future ? count - 1 - i : i];
    uint32_t function = function_of_(sample.pid, future ? entry.to : entry.from);
    if (function == last) continue;
    last = function;
    ++depth;
    if (!Step(function, &at)) return;
  }
}

}  // namespace brink::report
