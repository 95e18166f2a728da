// A set of 64-bit unsigned numbers as sorted, disjoint, inclusive ranges: what a numeric predicate accepts.
//
// Signed fields are kept biased (ToBiased), so that one order serves both. Value type; no threads.
#pragma once

#include <cstdint>
#include <vector>

namespace brink::filter {

struct Range {
  uint64_t lo = 0;
  uint64_t hi = 0;  // inclusive
  bool operator==(const Range&) const = default;
};

class RangeSet {
 public:
  RangeSet() = default;  // empty
  static RangeSet All();
  static RangeSet Of(uint64_t value) { return Between(value, value); }
  // lo > hi gives the empty set.
  static RangeSet Between(uint64_t lo, uint64_t hi);
  // Bit i of `mask` stands for the value i.
  static RangeSet OfMask(uint64_t mask);

  void Add(Range range);
  RangeSet Union(const RangeSet& other) const;
  RangeSet Intersection(const RangeSet& other) const;
  RangeSet Complement() const;

  bool Contains(uint64_t value) const;
  bool empty() const { return ranges_.empty(); }
  bool all() const { return ranges_.size() == 1 && ranges_[0] == Range{0, UINT64_MAX}; }
  // Members below 64 as bits; larger members are left out.
  uint64_t Mask() const;
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const RangeSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// Order-preserving map of signed to unsigned and back.
inline uint64_t ToBiased(int64_t value) { return static_cast<uint64_t>(value) ^ (uint64_t{1} << 63); }
inline int64_t FromBiased(uint64_t biased) { return static_cast<int64_t>(biased ^ (uint64_t{1} << 63)); }

}  // namespace brink::filter
