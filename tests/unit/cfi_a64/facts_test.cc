// What Facts says of A64 code: calls, landing pads, addresses that are formed, the way out of a signal handler.
#include "cfi/facts.h"

#include <gtest/gtest.h>

#include "cfi/a64_facts.h"
#include "sample.h"

namespace brink::cfi {
namespace {

using decode::Flow;

TEST(A64Facts, FormsAddressesByPairs) {
  // adrp x0, +1 page; nop; add x1, x0, #0x10; adr x2, -4; add x3, x0, #1, lsl #12; adrp x0, -1 page; add x0, x0, #8
  const uint32_t words[] = {0xb0000000, 0xd503201f, 0x91004001, 0x10ffffe2, 0x91400403, 0xf0ffffe0, 0x91002000};
  std::vector<uint64_t> found;
  FormedAddressesA64({reinterpret_cast<const uint8_t*>(words), sizeof words}, 0x40abc, [&](uint64_t value) { found.push_back(value); });
  EXPECT_EQ(found, (std::vector<uint64_t>{0x41010, 0x40ac4, 0x42000, 0x3f008}));
}

TEST(A64Facts, PadsOfCalls) {
  for (uint32_t pad : {0xd503245fu, 0xd50324dfu, 0xd503233fu, 0xd503237fu}) EXPECT_TRUE(IsCallPadA64(pad)) << std::hex << pad;
  EXPECT_FALSE(IsCallPadA64(0xd503249f)) << "bti j is for jumps";
  EXPECT_FALSE(IsCallPadA64(0xd503201f)) << "nop";
}

TEST(A64Facts, BeginningsOfLinkageTables) {
  auto begins = [](uint32_t first, uint32_t second) {
    const uint32_t words[] = {first, second};
    return BeginsPltA64({reinterpret_cast<const uint8_t*>(words), sizeof words});
  };
  EXPECT_TRUE(begins(0xa9bf7bf0, 0xd00000f0));
  EXPECT_TRUE(begins(0xd503245f, 0xa9bf7bf0));
  EXPECT_FALSE(begins(0xf00000f0, 0xf9400211)) << "a slot";
  EXPECT_FALSE(begins(0xa9bf7bfd, 0x910003fd)) << "a function";
}

#ifndef A64_SAMPLE

TEST(Sample, IsNotThere) { GTEST_SKIP() << "needs clang and lld"; }

#else

TEST_F(Sample, IsKnownForWhatItIs) {
  EXPECT_EQ(facts_->machine(), decode::Machine::kA64);
  EXPECT_TRUE(facts_->ibt());
  EXPECT_TRUE(facts_->has_unwind());
}

TEST_F(Sample, CallsEndFourBytesBehindTheirBeginning) {
  const uint64_t takes = At("takes");
  auto call = facts_->CallBefore(takes + 24);  // behind blr
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->flow, Flow::kIndCall);
  EXPECT_FALSE(facts_->CallBefore(takes + 20).has_value());
  EXPECT_FALSE(facts_->CallBefore(takes + 26).has_value()) << "between two instructions";
  auto direct = facts_->CallBefore(At("never_taken") + 16);
  ASSERT_TRUE(direct.has_value());
  EXPECT_EQ(direct->flow, Flow::kCall);
  EXPECT_EQ(direct->target, At("callee"));
}

TEST_F(Sample, BoundariesAreWords) {
  EXPECT_EQ(facts_->IsBoundary(At("takes") + 8), Known::kYes);
  EXPECT_EQ(facts_->IsBoundary(At("takes") + 10), Known::kNo);
}

TEST_F(Sample, PadsStandAtEntriesOfCalls) {
  EXPECT_EQ(facts_->HasEndbr(At("callee")), Known::kYes) << "bti c";
  EXPECT_EQ(facts_->HasEndbr(At("takes")), Known::kYes) << "paciasp";
  EXPECT_EQ(facts_->HasEndbr(At("takes") + 4), Known::kNo);
  EXPECT_EQ(facts_->HasEndbr(At("restorer")), Known::kNo);
}

TEST_F(Sample, AddressesInTablesAndInCodeAreTaken) {
  EXPECT_EQ(facts_->IsTaken(At("in_table")), Known::kYes);
  EXPECT_EQ(facts_->IsTaken(At("formed")), Known::kYes);
  EXPECT_EQ(facts_->IsTaken(At("never_taken")), Known::kNo);
}

TEST_F(Sample, TheWayOutOfAHandlerIsKnown) {
  EXPECT_TRUE(facts_->IsRestorer(At("restorer")));
  EXPECT_FALSE(facts_->IsRestorer(At("restorer") + 4));
  EXPECT_FALSE(facts_->IsRestorer(At("takes")));
}

TEST_F(Sample, ReturnsAreDecodedWhereverTheyStand) {
  auto ret = facts_->InsnAt(At("takes") + 36);
  ASSERT_TRUE(ret.has_value());
  EXPECT_EQ(ret->flow, Flow::kRet);
}

#endif

}  // namespace
}  // namespace brink::cfi
