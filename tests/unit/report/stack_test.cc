#include "report/stack.h"

#include <gtest/gtest.h>

#include "stack_helpers.h"

namespace brink::report {
namespace {

struct Result {
  CleanStack stack;
  RuleCounts counts;
};

Result CleanOf(const std::vector<BranchEntry>& entries, StackMeta meta = {}) {
  Result result;
  Clean(entries, meta, &result.stack, &result.counts);
  return result;
}

TEST(Rules, NeighboursMakeRanges) {
  Result r = CleanOf(Stack({{0x1150, 0x1200}, {0x1080, 0x1100}}));
  ASSERT_EQ(r.stack.straight, std::vector<uint8_t>{1});
  EXPECT_EQ(r.stack.range_start(0), 0x1100u);
  EXPECT_EQ(r.stack.range_end(0), 0x1150u);
}

TEST(Rules, UnusedEntriesAreDroppedAndCounted) {
  Result r = CleanOf(Stack({{0x1150, 0x1200}, {0, 0}, {0, 0}}));
  EXPECT_EQ(r.stack.entries.size(), 1u);
  EXPECT_EQ(r.counts[Rule::kZero], 2u);
}

TEST(Rules, AHalfEntryEndsTheStraightLine) {
  Result r = CleanOf(Stack({{0x1150, 0x1200}, {0x1090, 0}, {0x1080, 0x1100}}));
  EXPECT_EQ(r.counts[Rule::kHalf], 1u);
  EXPECT_EQ(r.counts[Rule::kRangeGap], 1u);
  EXPECT_EQ(r.stack.straight, std::vector<uint8_t>{0});
}

TEST(Rules, WrongPathEntriesNeverHappenedAndJoinTheirNeighbours) {
  auto stack = Stack({{0x1150, 0x1200}, {0x1140, 0x5000}, {0x1080, 0x1100}});
  stack[1].info |= uint64_t{1} << 24;
  Result r = CleanOf(stack);
  EXPECT_EQ(r.counts[Rule::kWrongPath], 1u);
  EXPECT_EQ(r.stack.entries.size(), 2u);
  EXPECT_EQ(r.stack.straight, std::vector<uint8_t>{1});
}

TEST(Rules, DuplicateNewestOfAForwardJumpIsDropped) {
  Result r = CleanOf(Stack({{0x1080, 0x1100}, {0x1080, 0x1100}, {0x1040, 0x1070}}));
  EXPECT_EQ(r.counts[Rule::kDuplicateNewest], 1u);
  EXPECT_EQ(r.stack.entries.size(), 2u);
  EXPECT_EQ(r.counts[Rule::kRangeBackward], 0u);
}

TEST(Rules, AmongFilteredRecordsABranchMayFollowItself) {
  const auto stack = Stack({{0x1080, 0x1100}, {0x1080, 0x1100}});
  CleanStack clean;
  RuleCounts counts;
  Clean(stack, {.contiguous = false}, &clean, &counts);
  EXPECT_EQ(counts[Rule::kDuplicateNewest], 0u);
  EXPECT_EQ(clean.entries.size(), 2u);
  // Taken off by whoever filtered: counted, and no other entry goes.
  Clean(stack, {.contiguous = false, .newest_taken_off = true}, &clean, &counts);
  EXPECT_EQ(counts[Rule::kDuplicateNewest], 1u);
  EXPECT_EQ(clean.entries.size(), 2u);
}

TEST(Rules, ATightLoopIsNoDuplicate) {
  Result r = CleanOf(Stack({{0x1080, 0x1070}, {0x1080, 0x1070}}));
  EXPECT_EQ(r.counts[Rule::kDuplicateNewest], 0u);
  EXPECT_EQ(r.stack.entries.size(), 2u);
  EXPECT_EQ(r.stack.straight, std::vector<uint8_t>{1});
}

TEST(Rules, ALoopOfMoreThanFourKibibytesIsTakenForADuplicate) {
  EXPECT_EQ(CleanOf(Stack({{0x3080, 0x2080}, {0x3080, 0x2080}})).counts[Rule::kDuplicateNewest], 0u);
  EXPECT_EQ(CleanOf(Stack({{0x3081, 0x2080}, {0x3081, 0x2080}})).counts[Rule::kDuplicateNewest], 1u);
}

TEST(Rules, RangesThatEndBeforeTheyStartAreRefused) {
  Result r = CleanOf(Stack({{0x1050, 0x1200}, {0x1080, 0x1100}}));
  EXPECT_EQ(r.counts[Rule::kRangeBackward], 1u);
  EXPECT_EQ(r.stack.straight, std::vector<uint8_t>{0});
}

TEST(Rules, RangesBeyondOneMebibyteAreRefused) {
  EXPECT_EQ(CleanOf(Stack({{0x101100, 0x1}, {0x1080, 0x1100}})).counts[Rule::kRangeTooLong], 0u);
  EXPECT_EQ(CleanOf(Stack({{0x101101, 0x1}, {0x1080, 0x1100}})).counts[Rule::kRangeTooLong], 1u);
}

TEST(Rules, RangesBetweenKernelAndUserAreRefused) {
  Result r = CleanOf(Stack({{0xffffffff81000100, 0x1200}, {0x1080, 0x1100}}));
  EXPECT_EQ(r.counts[Rule::kRangeCrossing], 1u);
}

TEST(Rules, FilteredStacksHaveNoRanges) {
  Result r = CleanOf(Stack({{0x1150, 0x1200}, {0x1080, 0x1100}}), {.contiguous = false});
  EXPECT_EQ(r.counts[Rule::kRangeRefused], 1u);
  EXPECT_EQ(r.stack.entries.size(), 2u);
}

TEST(Rules, CallStackModeHasNoRanges) {
  Result r = CleanOf(Stack({{0x1150, 0x1200}, {0x1080, 0x1100}}), {.call_stack = true});
  EXPECT_EQ(r.counts[Rule::kRangeCallStack], 1u);
}

TEST(Rules, BitsThatTheKernelReservesAreMasked) {
  auto stack = Stack({{0x1150, 0x1200}});
  stack[0].info |= uint64_t{1} << 40;
  EXPECT_EQ(CleanOf(stack).stack.entries[0].info, 0u);
}

TEST(Rules, EveryRuleHasAKeyAndAText) {
  for (size_t i = 0; i < kRuleCount; ++i) {
    EXPECT_FALSE(RuleName(static_cast<Rule>(i)).empty());
    EXPECT_FALSE(RuleText(static_cast<Rule>(i)).empty());
  }
}

}  // namespace
}  // namespace brink::report
