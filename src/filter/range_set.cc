#include "filter/range_set.h"

#include <algorithm>

namespace brink::filter {

RangeSet RangeSet::All() { return Between(0, UINT64_MAX); }

RangeSet RangeSet::Between(uint64_t lo, uint64_t hi) {
  RangeSet set;
  if (lo <= hi) set.ranges_.push_back({lo, hi});
  return set;
}

RangeSet RangeSet::OfMask(uint64_t mask) {
  RangeSet set;
  for (uint64_t i = 0; i < 64; ++i) {
    if (mask >> i & 1) set.Add({i, i});
  }
  return set;
}

void RangeSet::Add(Range range) {
  if (range.lo > range.hi) return;
  ranges_.push_back(range);
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
  std::vector<Range> merged;
  for (const Range& r : ranges_) {
    // Touching ranges merge too; hi + 1 must not wrap.
    if (!merged.empty() && (merged.back().hi == UINT64_MAX || r.lo <= merged.back().hi + 1)) {
      merged.back().hi = std::max(merged.back().hi, r.hi);
    } else {
      merged.push_back(r);
    }
  }
  ranges_ = std::move(merged);
}

RangeSet RangeSet::Union(const RangeSet& other) const {
  RangeSet set = *this;
  for (const Range& r : other.ranges_) set.Add(r);
  return set;
}

RangeSet RangeSet::Intersection(const RangeSet& other) const {
  RangeSet set;
  for (const Range& a : ranges_) {
    for (const Range& b : other.ranges_) set.Add({std::max(a.lo, b.lo), std::min(a.hi, b.hi)});
  }
  return set;
}

RangeSet RangeSet::Complement() const {
  RangeSet set;
  uint64_t next = 0;
  for (const Range& r : ranges_) {
    if (r.lo > next) set.ranges_.push_back({next, r.lo - 1});
    if (r.hi == UINT64_MAX) return set;
    next = r.hi + 1;
  }
  set.ranges_.push_back({next, UINT64_MAX});
  return set;
}

bool RangeSet::Contains(uint64_t value) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& r) { return value >= r.lo && value <= r.hi; });
}

uint64_t RangeSet::Mask() const {
  uint64_t mask = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    if (Contains(i)) mask |= uint64_t{1} << i;
  }
  return mask;
}

}  // namespace brink::filter
