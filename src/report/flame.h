// Paths as a tree of functions: the root is the function that a sample hit, its children what came before it (stacks that
// lead to the sample) or after it (stacks that follow it). Consecutive branches within one function are one step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "report/aggregate.h"

namespace brink::report {

struct FlameNode {
  uint32_t function = 0;
  uint64_t count = 0;  // stacks that pass here
  std::map<uint32_t, uint32_t> children;  // function -> index of the node
};

class FlameBuilder : public StackObserver {
 public:
  static constexpr size_t kMaxDepth = 24;
  static constexpr size_t kMaxNodes = 200000;  // beyond that, new branches of the tree are dropped
  using FunctionOf = std::function<uint32_t(int32_t pid, uint64_t address)>;

  explicit FlameBuilder(FunctionOf function_of) : function_of_(std::move(function_of)) { nodes_.emplace_back(); }
  void OnStack(const SampleView& sample, const CleanStack& stack) override;
  // nodes()[0] is the root of all.
  const std::vector<FlameNode>& nodes() const { return nodes_; }
  std::vector<FlameNode> Take() { return std::move(nodes_); }

 private:
  bool Step(uint32_t function, uint32_t* at);

  FunctionOf function_of_;
  std::vector<FlameNode> nodes_;
};

}  // namespace brink::report
