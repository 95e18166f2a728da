// Samples with their call stacks, for formats that show time: folded, pprof, Perfetto, speedscope, Firefox profiler.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "report/program.h"

namespace brink::exporter {

using symbol::Location;

// One frame under its caller. Node 0 is the root and stands for no frame.
struct StackNode {
  uint32_t parent = 0;
  Location place;  // callers: the last byte of their call, so that it belongs to the line that calls
};

struct TimedSample {
  uint64_t time = 0;      // ns, of the recording's clock
  uint64_t period = 0;    // what the sample stands for, in the event's unit; 0 unknown
  int32_t pid = -1, tid = -1;
  uint32_t node = 0;      // leaf frame
};

// Give it to LoadOptions::observe. The call stack of a sample is its recorded call chain; without one, what its branches
// say: calls that had not returned (stacks that led to the sample) or returns from calls not seen (stacks that follow it).
// That is right as far as it goes, and ends where the branches end.
class SampleCollector : public report::StackObserver {
 public:
  explicit SampleCollector(report::Program* program) : program_(*program) { nodes_.emplace_back(); }
  void OnSample(const report::SampleView& sample) override;
  void OnStack(const report::SampleView& sample, const report::CleanStack& stack) override;

  const std::vector<StackNode>& nodes() const { return nodes_; }
  const std::vector<TimedSample>& samples() const { return samples_; }  // in the order of the recording
  // Name of the thread when it was last seen; "" unknown.
  std::string NameOf(int32_t tid) const;
  uint64_t derived() const { return derived_; }  // samples whose stack was made from branches
  // An aggregate knows no stacks: one frame a sample, no time.
  void AddAddresses(const report::Aggregate& aggregate);

 private:
  void Add(const report::SampleView& sample, std::vector<uint64_t>& frames);

  report::Program& program_;
  std::vector<StackNode> nodes_;
  absl::flat_hash_map<std::pair<uint32_t, Location>, uint32_t> children_;
  std::vector<TimedSample> samples_;
  std::map<int32_t, std::string> names_;  // by tid
  std::vector<uint64_t> frames_;
  uint64_t derived_ = 0;
};

// The frames of a stack as functions, root first.
std::vector<symbol::FunctionId> FunctionsOf(const std::vector<StackNode>& nodes, uint32_t leaf, report::Program& program);

}  // namespace brink::exporter
