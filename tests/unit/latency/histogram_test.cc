#include "latency/histogram.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "latency/clock.h"

namespace brink::latency {
namespace {

TEST(LogHistogram, ClearedItIsAsNew) {
  LogHistogram histogram;
  histogram.Add(5);
  histogram.Add(70'000);
  histogram.Clear();
  EXPECT_EQ(histogram.total(), 0u);
  EXPECT_EQ(histogram.Percentile(99), 0);
  histogram.Add(300);
  EXPECT_EQ(histogram.total(), 1u);
  EXPECT_EQ(histogram.min(), 300);
  EXPECT_EQ(histogram.max(), 300);
  EXPECT_EQ(histogram.mean(), 300);
}

TEST(LogHistogram, BucketsCoverEveryValueWithoutGapOrOverlap) {
  for (size_t bucket = 0; bucket + 1 < LogHistogram::kBuckets; ++bucket) {
    int64_t low = LogHistogram::LowOf(bucket), high = LogHistogram::HighOf(bucket);
    ASSERT_LT(low, high);
    EXPECT_EQ(LogHistogram::BucketOf(low), bucket);
    EXPECT_EQ(LogHistogram::BucketOf(high - 1), bucket);
    EXPECT_LE((high - low) * 128, std::max<int64_t>(low, 128)) << bucket;
  }
}

TEST(LogHistogram, PercentilesAreThoseOfSortedValuesWithinABucket) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> values(10, 2);
  LogHistogram histogram;
  std::vector<int64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(static_cast<int64_t>(values(random)));
    histogram.Add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (double percent : {1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    int64_t exact = all[static_cast<size_t>(std::ceil(static_cast<double>(all.size()) * percent / 100)) - 1];
    EXPECT_GE(histogram.Percentile(percent), exact) << percent;
    EXPECT_LE(histogram.Percentile(percent), exact + exact / 128 + 1) << percent;
  }
  EXPECT_EQ(histogram.min(), all.front());
  EXPECT_EQ(histogram.max(), all.back());
}

TEST(LogHistogram, EmptyHasNoFigures) {
  LogHistogram empty;
  EXPECT_EQ(empty.Percentile(50), 0);
  EXPECT_EQ(empty.max(), 0);
  EXPECT_EQ(empty.mean(), 0);
}

TEST(LogHistogram, NegativeValuesKeepTheirSignInMinimumAndMean) {
  LogHistogram histogram;
  histogram.Add(-500);
  histogram.Add(100);
  EXPECT_EQ(histogram.min(), -500);
  EXPECT_EQ(histogram.mean(), -200);
}

TEST(LogHistogram, ALateSampleStandsForThoseItDisplaced) {
  LogHistogram corrected;
  for (int i = 0; i < 99; ++i) corrected.AddCorrected(10'000, 1'000'000);
  corrected.AddCorrected(100'000'000, 1'000'000);
  // 100 ms late at a period of 1 ms: 99 more wake-ups would have been 99, 98, ... 1 ms late.
  EXPECT_EQ(corrected.total(), 199u);
  EXPECT_NEAR(static_cast<double>(corrected.Percentile(90)), 80e6, 2e6);
  EXPECT_EQ(corrected.max(), 100'000'000);
}

TEST(LogHistogram, MergingAddsInAnyOrder) {
  LogHistogram a, b, ab, ba;
  for (int i = 1; i < 100; ++i) a.Add(i * 37), b.Add(i * 1001);
  ab.Merge(a), ab.Merge(b), ba.Merge(b), ba.Merge(a);
  EXPECT_EQ(ab.total(), 198u);
  EXPECT_EQ(ab.min(), 37);
  EXPECT_EQ(ba.max(), 99'099);
  EXPECT_EQ(ab.Percentile(75), ba.Percentile(75));
}

TEST(Lateness, IsSignedAndClockStepsAreNotLateness) {
  EXPECT_EQ(Judge(1000, 400, 0).ns, -600);
  EXPECT_FALSE(Judge(1000, 400, 0).clock_step);
  EXPECT_TRUE(Judge(1000, 3'600'000'001'000, 3'600'000'000'000).clock_step);
  EXPECT_TRUE(Judge(1000, 2000, -3'600'000'000'000).clock_step);
  EXPECT_FALSE(Judge(1000, 2000, 100).clock_step);
}

TEST(MissedPeriods, CountsDeadlinesThatHavePassed) {
  EXPECT_EQ(MissedPeriods(1000, 1000, 1000), 0u);
  EXPECT_EQ(MissedPeriods(1000, 900, 1000), 0u);
  EXPECT_EQ(MissedPeriods(1000, 1001, 1000), 1u);
  EXPECT_EQ(MissedPeriods(1000, 6000, 1000), 5u);
  EXPECT_EQ(MissedPeriods(1000, 6001, 1000), 6u);
}

}  // namespace
}  // namespace brink::latency
