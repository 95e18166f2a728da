// Loops and their trip counts, from the stacks alone.
//
// A loop is a taken branch to an address at or before its own within one object and kMaxRange (the latch); its body is
// [target, source]. A run counts how often the latch was taken in a row. A run is complete when the stack shows both that
// the loop was entered from outside and that it was left; then trips = latches + 1. Runs cut off by an end of the stack
// are lower bounds and counted apart: a loop longer than the stack has only those.
#pragma once

#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "report/aggregate.h"

namespace brink::report {

struct LoopStat {
  Location head;              // target of the latch
  uint64_t latch = 0;         // offset of the branch, same object
  uint64_t taken = 0;         // latches seen
  uint64_t runs = 0;          // complete ones
  uint64_t trips = 0;         // sum over complete runs
  uint64_t min_trips = 0, max_trips = 0;
  uint64_t cut_runs = 0;      // not complete
  uint64_t longest_cut = 0;   // most latches in one of them
  uint64_t cycles = 0, cycle_count = 0;  // per iteration, from latches whose previous latch follows directly in the record
};

class LoopFinder : public StackObserver {
 public:
  explicit LoopFinder(const symbol::AddressSpaces* spaces) : spaces_(*spaces) {}
  void OnStack(const SampleView& sample, const CleanStack& stack) override;
  const std::vector<LoopStat>& result() const { return loops_; }
  // Counts begin anew.
  std::vector<LoopStat> Take();

 private:
  struct Run {
    uint64_t head, latch;
    uint64_t taken = 0;
    bool entered = false;  // seen coming in from outside
    int depth = 0;         // calls made since inside
  };
  void Step(const SampleView& sample, const CleanStack& stack, size_t i);
  void Close(const SampleView& sample, Run& run, bool left);
  LoopStat& StatOf(const SampleView& sample, uint64_t head, uint64_t latch);

  const symbol::AddressSpaces& spaces_;
  absl::flat_hash_map<std::pair<Location, uint64_t>, uint32_t> index_;
  std::vector<LoopStat> loops_;
  std::vector<Run> open_;
};

}  // namespace brink::report
