// Hottest sequences of k branches in a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "report/aggregate.h"

namespace brink::report {

struct PathStat {
  std::vector<std::pair<Location, Location>> branches;  // oldest first
  uint64_t count = 0;
  uint64_t cycles = 0;       // sum over the paths whose entries all say, first entry left out
  uint64_t cycle_count = 0;
};

// Only stacks that are contiguous count: otherwise neighbours in the record are none in time. Memory: at most kMaxPaths
// different paths; when full, those seen once are dropped and counted.
class PathFinder : public StackObserver {
 public:
  static constexpr size_t kMaxPaths = 1u << 20;
  PathFinder(const symbol::AddressSpaces* spaces, size_t length) : spaces_(*spaces), length_(length) {}
  void OnStack(const SampleView& sample, const CleanStack& stack) override;
  std::vector<PathStat> Take();
  uint64_t windows() const { return windows_; }
  uint64_t dropped() const { return dropped_; }

 private:
  struct Cell {
    uint64_t count = 0, cycles = 0, cycle_count = 0;
  };
  const symbol::AddressSpaces& spaces_;
  size_t length_;
  absl::flat_hash_map<std::string, Cell> cells_;  // key: the branch ids in order, four bytes each
  absl::flat_hash_map<std::pair<Location, Location>, uint32_t> ids_;
  std::vector<std::pair<Location, Location>> branches_;
  uint64_t windows_ = 0, dropped_ = 0;
};

}  // namespace brink::report
