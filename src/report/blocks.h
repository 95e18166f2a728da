// Straight pieces of code and how often each ran: ranges cut at every place where one of them starts or ends. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "report/aggregate.h"

namespace brink::report {

struct BlockStat {
  Location start;
  uint64_t end = 0;    // offset of its last known instruction: the branch that ends it, or the byte before the next block
  uint64_t count = 0;  // ranges that cover it
  // Share of the cycles of the ranges over it, by length in bytes; unknown where cycle_count is 0.
  double cycles = 0;
  uint64_t cycle_count = 0;
};

// Sorted by object and start.
std::vector<BlockStat> CutBlocks(std::span<const RangeStat> ranges);

// How many of `ranges` (of one object) run over `offset` without branching there: the not-taken count of a conditional.
// Build once, ask often.
class Coverage {
 public:
  explicit Coverage(std::span<const RangeStat> ranges);
  // Ranges with start <= offset < end: they pass the instruction at `offset` and go on behind it.
  uint64_t Passing(const Location& at) const;
  // Ranges with start <= offset <= end.
  uint64_t Covering(const Location& at) const;

 private:
  struct Points {
    std::vector<uint64_t> at;         // sorted
    std::vector<uint64_t> up_to;      // sum of counts of all points <= at[i]
    uint64_t Sum(uint64_t offset, bool inclusive) const;
  };
  absl::flat_hash_map<symbol::ObjectId, std::pair<Points, Points>> objects_;  // starts, ends
};

}  // namespace brink::report
