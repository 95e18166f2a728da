#include "snap/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace brink::snap {
namespace {

using testing_support::IsOk;

BranchEntry Branch(uint64_t from, uint64_t to, Kind kind) {
  BranchEntry entry;
  entry.from = from;
  entry.to = to;
  entry.info = MakeInfo(kind);
  return entry;
}

// A function at 100: a loop 110 -> 104 twice, a call of 200 which returns, its own return at 130.
const std::vector<BranchEntry> kNewestFirst = {Branch(130, 900, Kind::kRet),  Branch(204, 122, Kind::kRet), Branch(118, 200, Kind::kCall),
                                               Branch(110, 104, Kind::kCond), Branch(110, 104, Kind::kCond)};

TEST(TraceSpan, EndsWithTheReturnOfItsEntryNotOfWhatItCalls) {
  SpanEnd end = FindSpanEnd(kNewestFirst, 100, 905, std::nullopt);
  EXPECT_TRUE(end.reached);
  EXPECT_EQ(end.taken, 5u);
  end = FindSpanEnd(std::span(kNewestFirst).subspan(1), 100, 124, std::nullopt);
  EXPECT_FALSE(end.reached);
  EXPECT_EQ(end.taken, 4u);
}

TEST(TraceSpan, EndsWhereAStraightLineComesToTheExit) {
  SpanEnd end = FindSpanEnd(kNewestFirst, 100, 905, 114);
  EXPECT_TRUE(end.reached);
  EXPECT_EQ(end.taken, 2u);
  end = FindSpanEnd(kNewestFirst, 100, 905, 106);
  EXPECT_TRUE(end.reached);
  EXPECT_EQ(end.taken, 0u) << "before the first branch";
  end = FindSpanEnd(kNewestFirst, 100, 905, 202);
  EXPECT_EQ(end.taken, 3u) << "inside of what is called";
  end = FindSpanEnd(kNewestFirst, 100, 905, 902);
  EXPECT_TRUE(end.reached) << "behind the last branch";
  EXPECT_EQ(end.taken, 5u);
  EXPECT_FALSE(FindSpanEnd(kNewestFirst, 100, 905, 500).reached);
}

TEST(TraceSpan, FromAPlaceBackToItselfIsOneRoundOfALoop) {
  SpanEnd end = FindSpanEnd(kNewestFirst, 104, 905, 104);
  EXPECT_TRUE(end.reached);
  EXPECT_EQ(end.taken, 1u);
}

TEST(TraceSpan, NothingFollowedIsNothing) {
  SpanEnd end = FindSpanEnd({}, 100, 0, 120);
  EXPECT_FALSE(end.reached);
  EXPECT_EQ(end.taken, 0u);
}

TEST(TraceSpan, SpellingsShareThePath) {
  auto both = ParseTraceSpan("./a:main..work+0x10");
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->entry, "./a:main");
  EXPECT_EQ(both->exit, "./a:work+0x10");
  auto line = ParseTraceSpan("./a:f.c:10..f.c:20");
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->exit, "./a:f.c:20");
  auto other = ParseTraceSpan("./a:main../lib/b.so:work");
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ(other->exit, "/lib/b.so:work");
  auto whole = ParseTraceSpan("./a:main");
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->exit, "");
  for (const char* bad : {"", "main", "..", ":main", "./a:"}) EXPECT_FALSE(ParseTraceSpan(bad).ok()) << bad;
}

}  // namespace
}  // namespace brink::snap
