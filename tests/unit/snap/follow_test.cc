#include "snap/follow.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/process.h"

namespace brink::snap {
namespace {

class ProbedPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < file_.size(); ++i) file_[i] = static_cast<uint8_t>(i * 7 + i / 4096);
    path_ = dir_.path() + "/program";
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(file_.data()), static_cast<std::streamsize>(file_.size()));
    pages_.Add(path_, std::vector<Place>{At(4096 + 10), At(4096 + 900), At(8192 + 3)});
  }
  static Place At(uint64_t offset) {
    Place place;
    place.offset = offset;
    return place;
  }
  // The second page as a walk finds it, with the head of the third.
  std::vector<uint8_t> Code() const { return {file_.begin() + 4096, file_.begin() + 8192 + BRINK_WALK_TAIL}; }

  testing_support::TempDir dir_;
  std::string path_;
  std::vector<uint8_t> file_ = std::vector<uint8_t>(3 * 4096);
  ProbedPages pages_;
};

TEST_F(ProbedPagesTest, ProbesAreTakenBack) {
  std::vector<uint8_t> code = Code(), meant;
  code[10] = code[900] = code[4096 + 3] = 0xcc;
  ASSERT_TRUE(pages_.Restore(code, &meant));
  EXPECT_EQ(meant, Code());
  // Some may be set yet, or no more.
  code[900] = Code()[900];
  ASSERT_TRUE(pages_.Restore(code, &meant));
  EXPECT_EQ(meant, Code());
}

TEST_F(ProbedPagesTest, WhatDiffersOtherwiseIsAnothersCode) {
  std::vector<uint8_t> code = Code(), meant;
  code[10] = 0xcc;
  code[11] ^= 1;
  EXPECT_FALSE(pages_.Restore(code, &meant));
  code = Code();
  code[10] = 0x90;  // no breakpoint
  EXPECT_FALSE(pages_.Restore(code, &meant));
  code = Code();
  code[20] = 0xcc;  // not ours
  EXPECT_FALSE(pages_.Restore(code, &meant));
  EXPECT_FALSE(pages_.Restore(std::vector<uint8_t>(4096, 0x90), &meant));
}

// The kernel makes a call of a probe on a long nop.
TEST_F(ProbedPagesTest, AnOptimisedProbeIsTakenBackToo) {
  const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00}, call[] = {0xe8, 1, 2, 3, 4};
  std::copy(std::begin(nop), std::end(nop), file_.begin() + 4096 + 200);
  const std::string path = dir_.path() + "/other";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(file_.data()), static_cast<std::streamsize>(file_.size()));
  ProbedPages pages;
  pages.Add(path, std::vector<Place>{At(4096 + 200), At(4096 + 200), At(4096 + 300)});
  std::vector<uint8_t> code = Code(), meant;
  std::copy(std::begin(call), std::end(call), code.begin() + 200);
  code[300] = 0xcc;
  ASSERT_TRUE(pages.Restore(code, &meant));
  EXPECT_EQ(meant, Code());
  code[206] ^= 1;
  EXPECT_FALSE(pages.Restore(code, &meant));
}

TEST_F(ProbedPagesTest, APageWithoutItsNeighbourIsKnownToo) {
  std::vector<uint8_t> code = Code(), meant;
  code.resize(4096);
  code[900] = 0xcc;
  ASSERT_TRUE(pages_.Restore(code, &meant));
  EXPECT_EQ(meant.size(), 4096u);
  EXPECT_EQ(meant[900], Code()[900]);
}

TEST(WhyNotFollowed, OnlyWhatHasNoFuture) {
  EXPECT_EQ(WhyNotFollowed(*ParseTrigger("syscall:read")), "");
  EXPECT_EQ(WhyNotFollowed(*ParseTrigger("signal:SEGV:all")), "");
  EXPECT_NE(WhyNotFollowed(*ParseTrigger("signal:SEGV")), "");
  EXPECT_NE(WhyNotFollowed(*ParseTrigger("exit")), "");
}

}  // namespace
}  // namespace brink::snap
