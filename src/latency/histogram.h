// Histograms of latencies: a logarithmic one of fixed size with bounded error, and cyclictest's linear one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace brink::latency {

// Values in ns. Below 128 exact, above in 128 steps an octave: a bucket is at most 1/128 of its value wide. 0 .. about
// 18 minutes (2^40 ns); larger values count in the last bucket, their true maximum is kept apart. The bucket arithmetic
// is the same in BPF (include/brink/abi/latency.h).
class LogHistogram {
 public:
  static constexpr int kSubBits = 7;
  static constexpr int kMaxBits = 40;
  static constexpr size_t kBuckets = (kMaxBits - kSubBits + 1) << kSubBits;

  LogHistogram() : counts_(kBuckets, 0) {}

  static size_t BucketOf(int64_t value) {
    if (value < 0) value = 0;
    auto v = static_cast<uint64_t>(value);
    if (v < (1u << kSubBits)) return v;
    int top = 63 - __builtin_clzll(v);
    if (top >= kMaxBits) return kBuckets - 1;
    int shift = top - kSubBits;
    return (static_cast<size_t>(shift + 1) << kSubBits) + ((v >> shift) - (1u << kSubBits));
  }
  // Smallest value of a bucket, and of the one behind it.
  static int64_t LowOf(size_t bucket);
  static int64_t HighOf(size_t bucket) { return LowOf(bucket + 1); }

  void Add(int64_t value, uint64_t count = 1) {
    counts_[BucketOf(value)] += count;
    total_ += count;
    sum_ += static_cast<double>(value) * static_cast<double>(count);
    if (value > max_) max_ = value;
    if (value < min_ || total_ == count) min_ = value;
  }
  // Gil Tene's correction: a sample later than `interval` stands for the samples that could not be taken meanwhile,
  // value - interval, value - 2 * interval, ...
  void AddCorrected(int64_t value, int64_t interval);
  void Merge(const LogHistogram& other);
  // Empty again, in the same memory.
  void Clear();
  // Takes over counts read elsewhere (BPF); sum from bucket middles.
  void AddBucket(size_t bucket, uint64_t count);

  // Exact figures that buckets do not hold, when a histogram is put together from stored buckets.
  void SetExact(int64_t min, int64_t max, double sum) { min_ = min, max_ = max, sum_ = sum; }

  uint64_t total() const { return total_; }
  int64_t min() const { return total_ ? min_ : 0; }
  int64_t max() const { return total_ ? max_ : 0; }
  double sum() const { return sum_; }
  double mean() const { return total_ ? sum_ / static_cast<double>(total_) : 0; }
  double StdDev() const;
  // Smallest recorded value (to the bucket's upper edge, never above max) that at least `percent` of all do not exceed.
  // 0 when empty.
  int64_t Percentile(double percent) const;
  void ForEach(const std::function<void(int64_t low, int64_t high, uint64_t count)>& visit) const;

 private:
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
  double sum_ = 0;
  int64_t min_ = 0, max_ = 0;
};

}  // namespace brink::latency
