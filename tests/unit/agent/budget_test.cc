#include "agent/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include "support/status_matchers.h"

namespace brink::agent {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;

constexpr uint64_t kSecond = 1'000'000'000;

// A program that uses `busy` of a CPU while it is not paused, watched four times a second.
struct Load {
  uint64_t now = 0, cpu = 0, cpu_at_begin = 0;
  void Run(CpuGovernor* governor, double busy, uint64_t seconds) {
    for (uint64_t i = 0; i < seconds * 4; ++i) {
      now += kSecond / 4;
      if (!governor->paused()) cpu += static_cast<uint64_t>(busy * 0.25e9);
      governor->Update(now, cpu);
    }
  }
};

TEST(CpuGovernor, HoldsTheMeanToTheBudget) {
  CpuGovernor governor(5);
  Load load;
  load.Run(&governor, 0.5, 20);  // settles
  const uint64_t before = load.cpu;
  load.Run(&governor, 0.5, 200);
  EXPECT_LE(static_cast<double>(load.cpu - before) / (200.0 * kSecond), 0.06);
  EXPECT_GT(load.cpu - before, 0u) << "it never resumed";
  EXPECT_GT(governor.pauses(), 1u);
  EXPECT_GT(governor.paused_ns(), 100 * kSecond);
}

TEST(CpuGovernor, LeavesWhatIsWithinTheBudgetAlone) {
  CpuGovernor governor(5);
  Load load;
  load.Run(&governor, 0.049, 100);
  EXPECT_EQ(governor.pauses(), 0u);
  EXPECT_NEAR(governor.percent(), 4.9, 0.01);
}

TEST(CpuGovernor, JudgesNothingBeforeItHasSeenTwoSeconds) {
  CpuGovernor governor(5);
  Load load;
  load.Run(&governor, 1.0, 1);
  EXPECT_FALSE(governor.paused());
  load.Run(&governor, 1.0, 2);
  EXPECT_TRUE(governor.paused());
}

TEST(CpuGovernor, ZeroIsNoBudget) {
  CpuGovernor governor(0);
  Load load;
  load.Run(&governor, 1.0, 100);
  EXPECT_FALSE(governor.paused());
}

TEST(RateBudget, GivesABurstAndThenTheRate) {
  RateBudget rate(10);
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += rate.Take(kSecond);
  EXPECT_EQ(taken, 10);
  for (int i = 1; i <= 100; ++i) taken += rate.Take(kSecond + static_cast<uint64_t>(i) * kSecond / 20);  // 20 a second for 5 s
  EXPECT_EQ(taken, 60);
  EXPECT_EQ(rate.refused(), 140u);
}

TEST(RateBudget, TimeThatStandsStillOrGoesBackGivesNothing) {
  RateBudget rate(1);
  EXPECT_TRUE(rate.Take(5 * kSecond));
  EXPECT_FALSE(rate.Take(4 * kSecond));
  EXPECT_FALSE(rate.Take(5 * kSecond));
  EXPECT_TRUE(rate.Take(6 * kSecond));
}

TEST(FilterArbiter, OneFilterAtATimeSharedByThoseThatWantTheSame) {
  FilterArbiter arbiter;
  EXPECT_THAT(arbiter.Acquire(1, "pid 5 uid 0", PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY), IsOk());
  EXPECT_THAT(arbiter.Acquire(2, "pid 6 uid 0", PERF_SAMPLE_BRANCH_USER), IsOk());
  Status busy = arbiter.Acquire(3, "pid 7 uid 0", PERF_SAMPLE_BRANCH_KERNEL);
  EXPECT_EQ(busy.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(busy.message()), HasSubstr("filter is 'u', held by job 1 of pid 5 uid 0"));
  EXPECT_THAT(arbiter.Acquire(3, "pid 7 uid 0", 0), IsOk());
  EXPECT_EQ(arbiter.Held(), "u");
  arbiter.Release(1);
  EXPECT_FALSE(arbiter.Acquire(3, "pid 7 uid 0", PERF_SAMPLE_BRANCH_KERNEL).ok());
  arbiter.Release(2);
  EXPECT_THAT(arbiter.Acquire(3, "pid 7 uid 0", PERF_SAMPLE_BRANCH_KERNEL), IsOk());
  EXPECT_EQ(arbiter.Held(), "k");
}

}  // namespace
}  // namespace brink::agent
