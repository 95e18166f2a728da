// kill -9 of the collector at random moments: what had been flushed is there and readable.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

TEST(Kill, AKilledCollectorLeavesAReadableFile) {
  SKIP_UNLESS("bpf.perf_event");
  std::mt19937 random(20);
  Background target({RECORD_TARGET, "spin", "1000000"});
  for (int i = 0; i < 20; ++i) {
    testing_support::TempDir dir;
    Background brink({testing_support::BrinkBinary(), "record", "--source", "replay", "-F", "2000", "-o", dir.File("x"), "-p", std::to_string(target.pid())});
    // Any moment from the first samples on, which are a while after the start on a busy machine.
    WaitForSamples(dir.File("x"), 1);
    usleep(random() % 400'000);
    uint64_t flushed = CountSamples(dir.File("x"));
    brink.Signal(SIGKILL);
    EXPECT_EQ(brink.Wait(), 128 + SIGKILL);
    FileFacts facts = ReadFacts(dir.File("x"));
    EXPECT_TRUE(facts.opened) << i;
    EXPECT_TRUE(facts.in_order) << i;
    EXPECT_GT(flushed, 0u) << i;
    EXPECT_GE(facts.samples, flushed) << i;
  }
}

}  // namespace
}  // namespace brink::record_test
