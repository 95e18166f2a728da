#include "ptrace/thread_state.h"

#include <set>

#include <gtest/gtest.h>

namespace brink::ptrace {
namespace {

using enum ThreadState;

constexpr ThreadState kAll[] = {kIdle, kArmed, kSampling, kHopping, kDraining, kDead};

// docs/exact-sources.md holds the same table.
const std::set<std::pair<ThreadState, ThreadState>> kLegalPairs = {
    {kIdle, kArmed},       {kIdle, kDraining},     {kIdle, kDead},
    {kArmed, kSampling},   {kArmed, kDraining},    {kArmed, kDead},
    {kSampling, kHopping}, {kSampling, kArmed},    {kSampling, kDraining}, {kSampling, kDead},
    {kHopping, kArmed},    {kHopping, kDraining},  {kHopping, kDead},
    {kDraining, kDead},
};

TEST(ThreadState, ExactlyTheDocumentedTransitionsAreLegal) {
  for (ThreadState from : kAll) {
    for (ThreadState to : kAll) {
      EXPECT_EQ(IsLegalTransition(from, to), kLegalPairs.contains({from, to})) << StateName(from) << " -> " << StateName(to);
    }
  }
}

TEST(ThreadState, AnIllegalTransitionIsRefusedAndChangesNothing) {
  ThreadStateMachine machine;
  EXPECT_FALSE(machine.To(kHopping));
  EXPECT_EQ(machine.state(), kIdle);
  ASSERT_TRUE(machine.To(kArmed));
  EXPECT_FALSE(machine.To(kArmed));
  EXPECT_FALSE(machine.To(kHopping)) << "a window opens only after its registers were taken";
  ASSERT_TRUE(machine.To(kSampling));
  ASSERT_TRUE(machine.To(kHopping));
  EXPECT_FALSE(machine.To(kSampling)) << "a tick during a hop is busy, not a second sample";
  ASSERT_TRUE(machine.To(kDead));
  for (ThreadState next : kAll) EXPECT_FALSE(machine.To(next)) << StateName(next);
  EXPECT_EQ(machine.state(), kDead);
}

TEST(ThreadState, ADrainingThreadOnlyDies) {
  ThreadStateMachine machine;
  ASSERT_TRUE(machine.To(kDraining));
  EXPECT_FALSE(machine.To(kArmed));
  EXPECT_FALSE(machine.To(kSampling));
  EXPECT_TRUE(machine.To(kDead));
}

}  // namespace
}  // namespace brink::ptrace
