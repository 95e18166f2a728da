// Baselines: text there and back, and what is no baseline.
#include "cfi/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace brink::cfi {
namespace {

using testing_support::IsOk;

TEST(Baseline, TextThereAndBack) {
  const std::string text = "brink-baseline 1\nedge 00000000000000ff\nedge 1234567890abcdef\nfile abcd\npath 0000000000000001\n";
  auto baseline = Baseline::Parse(text);
  ASSERT_THAT(baseline, IsOk());
  EXPECT_EQ(baseline->edges(), 2u);
  EXPECT_EQ(baseline->paths(), 1u);
  EXPECT_TRUE(baseline->Knows("\xab\xcd"));
  EXPECT_FALSE(baseline->Knows(""));
  EXPECT_FALSE(baseline->Knows("\xab"));
  EXPECT_EQ(baseline->Text(), text);
}

TEST(Baseline, LinesOfTwoJoinToOne) {
  auto both = Baseline::Parse("brink-baseline 1\nedge 01\nbrink-baseline 1\nedge 02\nedge 01\n");
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->edges(), 2u);
}

TEST(Baseline, WhatIsNoneIsNamed) {
  for (const char* text : {"", "brink-baseline 2\n", "edge 01\n", "brink-baseline 1\nedge xyz\n", "brink-baseline 1\nedge 11223344556677889\n", "brink-baseline 1\nfile abc\n", "brink-baseline 1\nnode 01\n", "brink-baseline 1\nedge\n"}) {
    EXPECT_FALSE(Baseline::Parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace brink::cfi
