// What a run of the walk source says about itself at the end. Pure: numbers in, lines out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brink/abi/event.h"
#include "brink/abi/walk_assist.h"
#include "session/source.h"
#include "source/lift_service.h"

namespace brink {

// Of the samples that came through the ring.
struct WalkTally {
  static constexpr int kBuckets = 32;

  uint64_t samples = 0;     // all, with and without branches
  uint64_t stacks = 0;      // with at least one branch
  uint64_t branches = 0;
  uint64_t steps = 0;
  uint64_t walk_ns = 0;
  uint64_t longest_ns = 0;
  uint64_t budget_ns = 0;   // of one walk; 0: none
  uint64_t over_budget = 0; // samples that took longer
  uint64_t all_ns[kBuckets] = {};   // samples by bit length of their time
  uint64_t compat = 0;      // of 32-bit code
  uint64_t stops[BRINK_STOP_MAX] = {};
  uint64_t full_ns[kBuckets] = {};  // full stacks by bit length of their time
  std::vector<uint32_t> full_times; // a bounded sample of their times, for the median

  void Add(const brink_sample& sample);
};

// Waits of walks for user space, of all CPUs (struct brink_assist_state).
struct AssistTotals {
  uint64_t asked[BRINK_ASSIST_KINDS] = {};
  uint64_t helped[BRINK_ASSIST_KINDS] = {};
  uint64_t waited_ns[BRINK_ASSIST_KINDS] = {};
};

std::vector<StatLine> WalkReport(const WalkTally& tally, const LiftStats& lift, const AssistTotals& assist, const std::vector<std::string>& notes,
                                 uint32_t depth, uint64_t period_ns);

}  // namespace brink
