#include "latency/histogram.h"

#include <algorithm>
#include <cmath>

namespace brink::latency {

int64_t LogHistogram::LowOf(size_t bucket) {
  if (bucket < (1u << kSubBits)) return static_cast<int64_t>(bucket);
  size_t shift = (bucket >> kSubBits) - 1;
  uint64_t mantissa = (bucket & ((1u << kSubBits) - 1)) + (1u << kSubBits);
  return static_cast<int64_t>(mantissa << shift);
}

void LogHistogram::AddCorrected(int64_t value, int64_t interval) {
  Add(value);
  if (interval <= 0) return;
  for (int64_t missed = value - interval; missed > 0; missed -= interval) Add(missed);
}

void LogHistogram::Clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
  total_ = 0;
  sum_ = 0;
  min_ = max_ = 0;
}

void LogHistogram::Merge(const LogHistogram& other) {
  if (!other.total_) return;
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  min_ = total_ ? std::min(min_, other.min_) : other.min_;
  max_ = total_ ? std::max(max_, other.max_) : other.max_;
  total_ += other.total_;
  sum_ += other.sum_;
}

void LogHistogram::AddBucket(size_t bucket, uint64_t count) {
  if (!count || bucket >= kBuckets) return;
  int64_t low = LowOf(bucket), high = HighOf(bucket);
  counts_[bucket] += count;
  min_ = total_ ? std::min(min_, low) : low;
  max_ = std::max(max_, high - 1);
  total_ += count;
  sum_ += static_cast<double>(count) * static_cast<double>(low + high - 1) / 2;
}

double LogHistogram::StdDev() const {
  if (total_ < 2) return 0;
  double mid = mean(), squares = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    if (!counts_[i]) continue;
    double value = static_cast<double>(LowOf(i) + HighOf(i) - 1) / 2 - mid;
    squares += value * value * static_cast<double>(counts_[i]);
  }
  return std::sqrt(squares / static_cast<double>(total_));
}

int64_t LogHistogram::Percentile(double percent) const {
  if (!total_) return 0;
  auto wanted = static_cast<uint64_t>(std::ceil(static_cast<double>(total_) * percent / 100.0));
  wanted = std::clamp<uint64_t>(wanted, 1, total_);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return i == kBuckets - 1 ? max_ : std::clamp(HighOf(i) - 1, min_, max_);
  }
  return max_;
}

void LogHistogram::ForEach(const std::function<void(int64_t, int64_t, uint64_t)>& visit) const {
  for (size_t i = 0; i < kBuckets; ++i) {
    if (counts_[i]) visit(LowOf(i), HighOf(i), counts_[i]);
  }
}

}  // namespace brink::latency
