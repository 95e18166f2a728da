// Which entries of a branch stack are another process's. The process has code at 0x1000 to 0x1fff.
#include "snap/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink::snap {
namespace {

using testing::ElementsAre;

constexpr uint64_t kKernel = 0xffffffff81000000;

std::vector<BranchEntry> Entries(const std::vector<std::pair<uint64_t, uint64_t>>& newest_first) {
  std::vector<BranchEntry> entries;
  for (const auto& [from, to] : newest_first) {
    BranchEntry entry = {};
    entry.from = from;
    entry.to = to;
    entries.push_back(entry);
  }
  return entries;
}

bool IsMapped(uint64_t address) { return address >= 0x1000 && address < 0x2000; }

std::vector<uint64_t> Sources(const OwnBranches& own) {
  std::vector<uint64_t> from;
  for (const BranchEntry& entry : own.entries) from.push_back(entry.from);
  return from;
}

std::vector<bool> Judge(const std::vector<std::pair<uint64_t, uint64_t>>& newest_first) {
  return ForeignBranches(Entries(newest_first), IsMapped);
}

TEST(ForeignBranches, OwnOnesStay) {
  EXPECT_THAT(Judge({{0x1010, 0x1100}, {0x1000, 0x1008}, {kKernel, 0x1000}, {0x1200, 0x1300}}), ElementsAre(false, false, false, false));
  EXPECT_TRUE(Judge({}).empty());
}

TEST(ForeignBranches, WhoRanMeanwhileIsMarkedWithHisReturnFromTheKernel) {
  EXPECT_THAT(Judge({{0x1010, 0x1100}, {kKernel, 0x1000}, {0x9010, 0x9100}, {0x9000, 0x9008}, {kKernel, 0x9000}, {0x1200, 0x1300}}),
              ElementsAre(false, false, true, true, true, false));
}

// Some of another's addresses are mapped here too: between two returns from the kernel there is one task.
TEST(ForeignBranches, ARunIsOneTasks) {
  EXPECT_THAT(Judge({{0x1010, 0x1100}, {kKernel, 0x1000}, {0x1400, 0x1500}, {0x9000, 0x1400}, {kKernel, 0x9000}}), ElementsAre(false, false, true, true, true));
  EXPECT_THAT(Judge({{kKernel, 0x1000}, {0x1400, 0x1500}, {0x1300, 0x9100}, {kKernel, 0x1300}}), ElementsAre(false, true, true, true));
}

TEST(ForeignBranches, AJumpToNowhereIsOnesOwn) {
  EXPECT_THAT(Judge({{0x1010, 0}, {0x1000, 0x1008}}), ElementsAre(false, false));
  // As well where a handler took it, and the program went on.
  EXPECT_THAT(Judge({{0x1020, 0x1030}, {kKernel, 0x1020}, {0x1010, 0x7000}, {kKernel, 0x1000}}), ElementsAre(false, false, false, false));
  // The kernel brought it back to nowhere, and there it ended.
  EXPECT_THAT(Judge({{kKernel, 0}, {0x1010, 0x1020}}), ElementsAre(false, false));
}

TEST(ForeignBranches, ATaskThatTookNoBranchLeavesItsReturn) {
  EXPECT_THAT(Judge({{0x1010, 0x1100}, {kKernel, 0x1000}, {kKernel, 0x9000}, {0x1000, 0x1008}}), ElementsAre(false, false, true, false));
}

TEST(ForeignBranches, WithoutReturnsFromTheKernelOnlyWhatIsSureIsMarked) {
  EXPECT_THAT(Judge({{0x1010, 0x1100}, {0x9010, 0x1100}, {0x1000, 0x1008}, {0x9000, 0x9010}, {0x1000, 0x1008}}), ElementsAre(false, true, true, true, false));
}

TEST(ForeignBranches, BranchesOfTheKernelAreNobodys) {
  EXPECT_THAT(Judge({{kKernel + 16, kKernel + 32}, {0x9000, kKernel}, {kKernel + 8, 0x9000}, {kKernel, kKernel + 4}}), ElementsAre(false, true, true, false));
}

TEST(OwnBranches, WhatTheThreadLeftBehindTakesThePlaceOfOthers) {
  const auto own = TellOwnBranches(Entries({{kKernel, 0x1020}, {0x9010, 0x9100}, {kKernel, 0x9000}}), Entries({{0x1010, 0x1020}, {0x1000, 0x1010}}), IsMapped);
  EXPECT_THAT(Sources(own), ElementsAre(kKernel, 0x1010, 0x1000));
  EXPECT_THAT(own.foreign, ElementsAre(false, false, false));
  EXPECT_EQ(own.left_at, 1u);
}

TEST(OwnBranches, NothingIsTakenFromBeforeWhereNobodyElseRan) {
  const auto own = TellOwnBranches(Entries({{0x1020, 0x1030}, {kKernel, 0x1020}, {0x1010, 0x1020}}), Entries({{0x1010, 0x1020}, {0x1000, 0x1010}, {0x1000, 0x1010}}), IsMapped);
  EXPECT_EQ(own.entries.size(), 3u);
  EXPECT_EQ(own.left_at, std::nullopt);
}

TEST(OwnBranches, TheyGoOnWhereTheKernelEmptiedTheHardware) {
  const auto own = TellOwnBranches(Entries({{0x1020, 0x1030}}), Entries({{0x1010, 0x1020}, {0x1000, 0x1010}}), IsMapped);
  EXPECT_THAT(Sources(own), ElementsAre(0x1020, 0x1010, 0x1000));
  EXPECT_EQ(own.left_at, 1u);
  EXPECT_EQ(TellOwnBranches({}, Entries({{0x1010, 0x1020}}), IsMapped).left_at, 0u);
}

TEST(OwnBranches, OthersAreMarkedWhereNothingIsKnownFromBefore) {
  const auto own = TellOwnBranches(Entries({{kKernel, 0x1020}, {0x9010, 0x9100}}), {}, IsMapped);
  EXPECT_THAT(own.foreign, ElementsAre(false, true));
  EXPECT_EQ(own.left_at, std::nullopt);
}

// Alike is not the same: a loop's branches repeat. That `left` is older than `now` is for who keeps them.
TEST(OwnBranches, ThoseOfALoopAreAllKept) {
  const auto own = TellOwnBranches(Entries({{0x1010, 0x1000}, {kKernel, 0x1000}, {0x9010, 0x9100}}), Entries({{0x1010, 0x1000}, {0x1010, 0x1000}}), IsMapped);
  EXPECT_THAT(Sources(own), ElementsAre(0x1010, kKernel, 0x1010, 0x1010));
  EXPECT_EQ(own.left_at, 2u);
}

TEST(OwnBranches, AreNoMoreThanTheHardwareHas) {
  std::vector<std::pair<uint64_t, uint64_t>> loop(BRINK_MAX_HW_BRANCHES, {0x1010, 0x1000});
  const auto own = TellOwnBranches(Entries({{kKernel, 0x1020}, {0x9010, 0x9100}}), Entries(loop), IsMapped);
  EXPECT_EQ(own.entries.size(), size_t{BRINK_MAX_HW_BRANCHES});
}

}  // namespace
}  // namespace brink::snap
