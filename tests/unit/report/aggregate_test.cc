#include "report/aggregate.h"

#include <gtest/gtest.h>

#include "report/loops.h"
#include "report/paths.h"
#include "stack_helpers.h"

namespace brink::report {
namespace {

const BranchStat* Find(const Aggregate& aggregate, uint64_t from, uint64_t to) {
  for (const BranchStat& stat : aggregate.branches) {
    if (stat.from.offset == from && stat.to.offset == to) return &stat;
  }
  return nullptr;
}
const RangeStat* FindRange(const Aggregate& aggregate, uint64_t start, uint64_t end) {
  for (const RangeStat& stat : aggregate.ranges) {
    if (stat.start.offset == start && stat.end == end) return &stat;
  }
  return nullptr;
}

TEST(Aggregate, CountsBranchesPredictionsAndCycles) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  auto stack = Stack({{0x1150, 0x1100, Kind::kCond, 0, 10}, {0x1150, 0x1100, Kind::kCond, 1, 4}, {0x1080, 0x1100, Kind::kUnknown, -1, 0}});
  aggregator.Add(process.Sample(stack));
  aggregator.Add(process.Sample(stack));
  Aggregate result = aggregator.Take();
  const BranchStat* loop = Find(result, 0x1150, 0x1100);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->count, 4u);
  EXPECT_EQ(loop->odd, 2u);
  EXPECT_EQ(loop->mispredicted, 2u);
  EXPECT_EQ(loop->predicted, 2u);
  EXPECT_EQ(loop->cycles, 28u);
  EXPECT_EQ(loop->cycle_count, 4u);
  EXPECT_EQ(loop->kind, Kind::kCond);
  EXPECT_EQ(loop->after_hit_cycles, 20u) << "the mispredicted entry (10 cycles) follows a predicted one, twice";
  EXPECT_EQ(loop->after_miss_count, 0u) << "nothing follows the newest entry";
  const BranchStat* entry = Find(result, 0x1080, 0x1100);
  EXPECT_EQ(entry->known(), 0u);
  EXPECT_EQ(entry->cycle_count, 0u);
  EXPECT_EQ(result.unknown_prediction, 2u);
  EXPECT_EQ(result.branch_count, 6u);
}

TEST(Aggregate, RangesCarryTheCyclesOfTheBranchThatEndsThem) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1200, Kind::kCond, 1, 9}, {0x1080, 0x1100, Kind::kCall, 1, 5}})));
  const RangeStat* range = FindRange(aggregator.result(), 0x1100, 0x1150);
  ASSERT_NE(range, nullptr);
  EXPECT_EQ(range->count, 1u);
  EXPECT_EQ(range->cycles, 9u);
}

TEST(Aggregate, RangesBetweenMappingsAreRefused) {
  OneProcess process;
  process.spaces.Mmap({.pid = 7, .start = 0x100000, .length = 0x1000, .page_offset = 0, .path = "/lib/other.so"});
  Aggregator aggregator(&process.spaces);
  aggregator.Add(process.Sample(Stack({{0x100010, 0x1200}, {0x1080, 0xfff00}})));
  EXPECT_EQ(aggregator.result().rules[Rule::kRangeObjects], 1u);
  EXPECT_TRUE(aggregator.result().ranges.empty());
}

TEST(Aggregate, TwoProcessesOfOneFileMeet) {
  OneProcess process;
  process.spaces.Mmap({.pid = 8, .start = 0x555500001000, .length = 0xff000, .page_offset = 0x1000, .path = "/bin/app"});
  Aggregator aggregator(&process.spaces);
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1100}})));
  auto moved = Stack({{0x555500001150, 0x555500001100}});
  SampleView sample = process.Sample(moved);
  sample.pid = 8;
  aggregator.Add(sample);
  ASSERT_EQ(aggregator.result().branches.size(), 1u);
  EXPECT_EQ(aggregator.result().branches[0].count, 2u);
}

TEST(Aggregate, ANewMappingChangesWhatAddressesMean) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1100}})));
  process.spaces.Mmap({.pid = 7, .start = 0x1000, .length = 0x1000, .page_offset = 0, .path = "/lib/new.so"});
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1100}})));
  EXPECT_EQ(aggregator.result().branches.size(), 2u);
}

TEST(Aggregate, DepthAndStops) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  auto stack = Stack({{0x1150, 0x1100}, {0x1150, 0x1100}});
  SampleView sample = process.Sample(stack);
  sample.has_note = true;
  sample.stop = BRINK_STOP_SYSCALL;
  aggregator.Add(sample);
  aggregator.Add(process.Sample({}));
  const Aggregate& result = aggregator.result();
  EXPECT_EQ(result.depth.at(2), 1u);
  EXPECT_EQ(result.depth.at(0), 1u);
  EXPECT_EQ(result.empty_samples, 1u);
  EXPECT_EQ(result.stops.at(BRINK_STOP_SYSCALL), 1u);
  EXPECT_EQ(result.stops.size(), 1u) << "a sample without a note has no stop reason";
}

std::vector<LoopStat> LoopsOf(const std::vector<BranchEntry>& stack) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  LoopFinder finder(&process.spaces);
  aggregator.AddObserver(&finder);
  aggregator.Add(process.Sample(stack));
  return finder.Take();
}

// jump 1000->1100, three latches 1150->1100, then straight past 1150 to a jump at 1160.
TEST(Loops, ACompleteRunHasOneTripMoreThanLatches) {
  auto loops = LoopsOf(Stack({{0x1160, 0x1300, Kind::kJump}, {0x1150, 0x1100, Kind::kCond, 1, 7}, {0x1150, 0x1100, Kind::kCond, 1, 5},
                              {0x1150, 0x1100, Kind::kCond}, {0x1010, 0x1100, Kind::kJump}}));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].head.offset, 0x1100u);
  EXPECT_EQ(loops[0].latch, 0x1150u);
  EXPECT_EQ(loops[0].taken, 3u);
  EXPECT_EQ(loops[0].runs, 1u);
  EXPECT_EQ(loops[0].trips, 4u);
  EXPECT_EQ(loops[0].cycles, 12u);
  EXPECT_EQ(loops[0].cycle_count, 2u);
}

TEST(Loops, ARunCutByTheEndOfTheStackIsALowerBound) {
  auto loops = LoopsOf(Stack({{0x1150, 0x1100, Kind::kCond}, {0x1150, 0x1100, Kind::kCond}}));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].runs, 0u);
  EXPECT_EQ(loops[0].cut_runs, 1u);
  EXPECT_EQ(loops[0].longest_cut, 2u);
}

TEST(Loops, CallsInsideTheBodyDoNotEndTheRun) {
  auto loops = LoopsOf(Stack({{0x1160, 0x1300, Kind::kJump}, {0x1150, 0x1100, Kind::kCond}, {0x5010, 0x1125, Kind::kRet},
                              {0x1120, 0x5000, Kind::kCall}, {0x1150, 0x1100, Kind::kCond}, {0x5010, 0x1125, Kind::kRet},
                              {0x1120, 0x5000, Kind::kCall}, {0x1010, 0x1100, Kind::kJump}}));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].runs, 1u);
  EXPECT_EQ(loops[0].trips, 3u);
}

TEST(Loops, ABreakOutOfTheBodyEndsTheRun) {
  auto loops = LoopsOf(Stack({{0x1130, 0x1300, Kind::kCond}, {0x1150, 0x1100, Kind::kCond}, {0x1010, 0x1100, Kind::kJump}}));
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].runs, 1u);
  EXPECT_EQ(loops[0].trips, 2u);
}

TEST(Loops, InnerLoopsAreCountedPerTripOfTheOuter) {
  // outer [1100,1180], inner [1120,1140]: twice outer with two trips of the inner one each (one latch), fall-ins both.
  auto loops = LoopsOf(Stack({{0x1190, 0x1300, Kind::kJump}, {0x1140, 0x1120, Kind::kCond}, {0x1180, 0x1100, Kind::kCond},
                              {0x1140, 0x1120, Kind::kCond}, {0x1010, 0x1100, Kind::kJump}}));
  ASSERT_EQ(loops.size(), 2u);
  const LoopStat& inner = loops[0].latch == 0x1140 ? loops[0] : loops[1];
  const LoopStat& outer = loops[0].latch == 0x1140 ? loops[1] : loops[0];
  EXPECT_EQ(inner.runs, 2u);
  EXPECT_EQ(inner.trips, 4u);
  EXPECT_EQ(outer.taken, 1u);
}

TEST(Loops, ReturnsAndCallsBackwardsAreNoLatches) {
  EXPECT_TRUE(LoopsOf(Stack({{0x5010, 0x1125, Kind::kRet}, {0x1120, 0x1000, Kind::kCall}})).empty());
}

TEST(Paths, CountsWindowsOfStraightNeighbours) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  PathFinder finder(&process.spaces, 2);
  aggregator.AddObserver(&finder);
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1100, Kind::kCond, 1, 3}, {0x1150, 0x1100, Kind::kCond, 1, 4}, {0x1080, 0x1100, Kind::kJump}})));
  auto paths = finder.Take();
  ASSERT_EQ(paths.size(), 2u);
  for (const PathStat& path : paths) {
    EXPECT_EQ(path.count, 1u);
    EXPECT_EQ(path.branches.size(), 2u);
    EXPECT_EQ(path.branches[1].first.offset, 0x1150u) << "oldest first";
  }
  EXPECT_EQ(finder.windows(), 2u);
}

TEST(Paths, FilteredStacksHaveNone) {
  OneProcess process;
  Aggregator aggregator(&process.spaces);
  PathFinder finder(&process.spaces, 2);
  aggregator.AddObserver(&finder);
  aggregator.Add(process.Sample(Stack({{0x1150, 0x1100}, {0x1080, 0x1100}}), {.contiguous = false}));
  EXPECT_TRUE(finder.Take().empty());
}

}  // namespace
}  // namespace brink::report
