#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink {
namespace {

using testing::ElementsAre;

TEST(ParseDuration, AcceptsEveryUnitAndFractions) {
  EXPECT_EQ(*ParseDurationNs("7ns"), 7u);
  EXPECT_EQ(*ParseDurationNs("100us"), 100'000u);
  EXPECT_EQ(*ParseDurationNs("2.5ms"), 2'500'000u);
  EXPECT_EQ(*ParseDurationNs("3"), 3'000'000'000u);
  EXPECT_EQ(*ParseDurationNs("3", 1000), 3'000u);
  EXPECT_EQ(*ParseDurationNs("1h"), 3'600'000'000'000u);
}

TEST(ParseDuration, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "s", "1x", "-1s", "1e9s", "nan", "999999999999d", "1 s"}) {
    EXPECT_FALSE(ParseDurationNs(text).ok()) << text;
  }
}

TEST(ParseSize, UsesPowersOf1024) {
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("64K"), 65536u);
  EXPECT_EQ(*ParseSize("1.5MiB"), 1572864u);
  EXPECT_FALSE(ParseSize("12Q").ok());
  EXPECT_FALSE(ParseSize("9999999999T").ok());
}

TEST(ParseUint, RefusesOverflowAndRests) {
  EXPECT_EQ(*ParseUint("0xff"), 255u);
  EXPECT_FALSE(ParseUint("18446744073709551616").ok());
  EXPECT_FALSE(ParseUint("12a").ok());
  EXPECT_FALSE(ParseUint("0x").ok());
}

TEST(ParseCpuList, SortsAndMergesRanges) {
  EXPECT_THAT(*ParseCpuList("7,0-2,1"), ElementsAre(0, 1, 2, 7));
  for (const char* text : {"", "3-1", "a", "1,,2", "70000"}) EXPECT_FALSE(ParseCpuList(text).ok()) << text;
}

}  // namespace
}  // namespace brink
