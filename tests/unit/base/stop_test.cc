#include "base/stop.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "brink/abi/event.h"

namespace brink {
namespace {

TEST(StopReasons, HaveOneSpellingWithDashesAndAMeaningEach) {
  std::set<std::string_view> names, texts;
  for (int stop = 0; stop < BRINK_STOP_MAX; ++stop) {
    std::string_view name = StopReasonName(stop);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), name.npos) << name;
    names.insert(name);
    texts.insert(StopReasonText(stop));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(BRINK_STOP_MAX));
  EXPECT_EQ(texts.size(), static_cast<size_t>(BRINK_STOP_MAX));
  EXPECT_EQ(StopReasonName(BRINK_STOP_UNKNOWN_CONDITION), "unknown-condition");
  EXPECT_EQ(StopReasonName(BRINK_STOP_NOT_USER), "not-user");
}

TEST(StopReasons, NumbersOfALaterVersionAreSaidToBe) {
  EXPECT_EQ(StopReasonName(BRINK_STOP_MAX), "?");
  EXPECT_EQ(StopReasonName(-1), "?");
}

}  // namespace
}  // namespace brink
