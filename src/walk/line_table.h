// The table that finds lifted lines by their content (abi/walk.h: walk_xlat). It forgets: where a bucket is full, a new line
// takes an old one's place, which is a miss once more. Thread-compatible: one writer; the walker reads at any moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "brink/abi/walk.h"

namespace brink::walk {

class LineTable {
 public:
  LineTable() = default;
  // The buckets stay the owner's and must be zero; a power of two of them.
  explicit LineTable(std::span<brink_walk_xlat> buckets) : buckets_(buckets) {}

  // Buckets for so many lines, most of which then find one that is not full.
  static uint32_t BucketsFor(uint64_t lines);

  void Put(uint64_t hash, uint32_t slot);
  void Remove(uint64_t hash);

 private:
  std::span<brink_walk_xlat> buckets_;
};

}  // namespace brink::walk
