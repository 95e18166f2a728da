#include "base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/branch.h"
#include "base/status.h"

namespace brink {
namespace {

TEST(EscapeForTerminal, NeutralisesControlsAndKeepsText) {
  EXPECT_EQ(EscapeForTerminal("plain"), "plain");
  EXPECT_EQ(EscapeForTerminal("a\x1b[31m"), "a\\x1b[31m");
  EXPECT_EQ(EscapeForTerminal("line\nbreak"), "line\\x0abreak");
  EXPECT_EQ(EscapeForTerminal("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(EscapeForTerminal("\xe2\x80\xae" "evil"), "\\xe2\\x80\\xae" "evil");  // right-to-left override
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"), "\\xc2\\x9b");                        // C1 CSI
  EXPECT_EQ(EscapeForTerminal("\xff"), "\\xff");
  EXPECT_EQ(EscapeForTerminal("\xc0\xaf"), "\\xc0\\xaf");  // overlong
}

TEST(NearestNames, FindsTypos) {
  EXPECT_THAT(NearestNames("--jso", {"--json", "--depth", "--jobs"}, 1), testing::ElementsAre("--json"));
  EXPECT_THAT(NearestNames("--zzzzzz", {"--json"}), testing::IsEmpty());
}

TEST(Status, KeepsErrnoThroughAnnotation) {
  Status status = Annotate(ErrnoError(EPERM, "perf_event_open"), "cpu 3");
  EXPECT_EQ(ErrnoOf(status), EPERM);
  EXPECT_EQ(Message(status), "cpu 3: perf_event_open: Operation not permitted");
}

TEST(BranchEntry, DecodesTheInfoWord) {
  BranchEntry entry{{.from = 1, .to = 2, .info = 1u | 1u << 3 | 77u << 4 | 6u << 20 | 3u << 24 | 2ull << 30}};
  EXPECT_EQ(entry.prediction(), Prediction::kMispredicted);
  EXPECT_EQ(entry.cycles(), 77u);
  EXPECT_EQ(entry.type(), PerfBranchType::kRet);
  EXPECT_EQ(entry.kind(), Kind::kTxAbort);
  EXPECT_EQ(entry.spec(), Spec::kSpecCorrect);
  EXPECT_EQ(entry.priv(), Priv::kKernel);
  entry.to = 0;
  EXPECT_EQ(entry.priv(), Priv::kUnknown);
}

TEST(BranchEntry, MakeInfoRoundTripsEveryKind) {
  for (int i = 0; i < kKindCount; ++i) {
    Kind kind = static_cast<Kind>(i);
    EXPECT_EQ((BranchEntry{{1, 2, MakeInfo(kind)}}).kind(), kind) << KindName(kind);
    EXPECT_EQ(ParseKind(KindName(kind)), kind);
  }
}

}  // namespace
}  // namespace brink
