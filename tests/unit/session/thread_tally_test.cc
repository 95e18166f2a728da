#include "session/thread_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace brink {
namespace {

uint64_t Sum(const ThreadCounts& counts) {
  return std::accumulate(counts.threads.begin(), counts.threads.end(), counts.other_samples, [](uint64_t sum, const ThreadCount& thread) { return sum + thread.samples; });
}

TEST(ThreadTally, TellsThreadsApartMostSamplesFirst) {
  ThreadTally tally;
  tally.Name(1, 1, "main");
  tally.Name(1, 2, "worker");
  tally.Sample(1, 1, 4);
  for (int i = 0; i < 3; ++i) tally.Sample(1, 2, 8);
  const ThreadCounts counts = tally.Take();
  ASSERT_EQ(counts.threads.size(), 2u);
  EXPECT_EQ(counts.threads[0].comm, "worker");
  EXPECT_EQ(counts.threads[0].samples, 3u);
  EXPECT_EQ(counts.threads[0].branches, 24u);
  EXPECT_EQ(counts.threads[1].tid, 1u);
  EXPECT_EQ(counts.samples, 4u);
  EXPECT_EQ(counts.branches, 28u);
}

TEST(ThreadTally, ForgetsThreadsThatEndedWithoutASample) {
  ThreadTally tally;
  for (uint32_t i = 1; i <= 100'000; ++i) {
    tally.Name(i, i, "true");
    tally.End(i, i);
  }
  EXPECT_LE(tally.size(), 1024u);
  EXPECT_TRUE(tally.Take().threads.empty());
}

TEST(ThreadTally, KeepsTheBusiestOfTheEndedAndTheSumOfAll) {
  ThreadTally tally;
  tally.Name(7, 7, "busy");
  for (int i = 0; i < 50; ++i) tally.Sample(7, 7, 1);
  tally.End(7, 7);
  tally.Sample(9, 9, 1);  // lives on
  for (uint32_t i = 100; i < 100'100; ++i) {
    tally.Name(i, i, "short");
    tally.Sample(i, i, 2);
    tally.End(i, i);
    ASSERT_LE(tally.size(), 1024u + 2 * ThreadTally::kMostEnded + 2);
  }
  const ThreadCounts counts = tally.Take();
  EXPECT_EQ(counts.threads[0].comm, "busy");
  EXPECT_EQ(counts.threads[0].samples, 50u);
  EXPECT_TRUE(std::any_of(counts.threads.begin(), counts.threads.end(), [](auto& thread) { return thread.tid == 9; }));
  EXPECT_EQ(counts.threads.size() + counts.other_threads, 100'002u);
  EXPECT_EQ(Sum(counts), counts.samples);
  EXPECT_EQ(counts.samples, 100'051u);
}

TEST(ThreadTally, CountsSamplesOfMoreLiveThreadsThanItHolds) {
  ThreadTally tally;
  for (uint32_t i = 1; i <= ThreadTally::kMost + 10; ++i) tally.Sample(i, i, 1);
  const ThreadCounts counts = tally.Take();
  EXPECT_EQ(counts.threads.size(), ThreadTally::kMost);
  EXPECT_EQ(counts.other_samples, 10u);
  EXPECT_EQ(Sum(counts), counts.samples);
}

// The number comes again: what lives is not among the ended.
TEST(ThreadTally, ANumberThatIsUsedAgainLives) {
  ThreadTally tally;
  tally.Sample(5, 5, 1);
  tally.End(5, 5);
  for (uint32_t i = 100; i < 1200; ++i) tally.End(i, i);
  tally.Name(5, 5, "new");
  for (uint32_t i = 2000; i < 12'000; ++i) {
    for (int j = 0; j < 2; ++j) tally.Sample(i, i, 1);
    tally.End(i, i);
  }
  const ThreadCounts counts = tally.Take();
  EXPECT_TRUE(std::any_of(counts.threads.begin(), counts.threads.end(), [](auto& thread) { return thread.comm == "new"; }));
  EXPECT_EQ(Sum(counts), counts.samples);
}

}  // namespace
}  // namespace brink
