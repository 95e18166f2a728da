#include "probe/known_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink {
namespace {

TEST(KnownLoop, RunsAndReturns) {
  RunKnownLoop(1);
  RunKnownLoop(1000);
}

TEST(KnownLoop, AForeignBranchIsNeitherKnownNorInTheLoop) {
  brink_branch entry = {0x1000, 0x2000, 0};
  EXPECT_FALSE(IsKnownBranch(entry));
  EXPECT_FALSE(FromKnownLoop(entry));
}

}  // namespace
}  // namespace brink
