#include "source/grace_period.h"

#include "support/features.h"

namespace brink {
namespace {

TEST(GracePeriod, IsWaitedForAsOftenAsAsked) {
  SKIP_UNLESS("bpf.loop");
  GracePeriod grace;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(grace.Wait());
}

}  // namespace
}  // namespace brink
