// kill -9 of the collector at random moments: what had been flushed is there and readable.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <random>

#include "support.h"
#include "support/features.h"

namespace brink::record_test {
namespace {

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST(Kill, AKilledCollectorLeavesAReadableFile) {
  SKIP_UNLESS("bpf.perf_event");
  std::mt19937 random(20);
  Background target({RECORD_TARGET, "spin", "1000000"});
  int with_samples = 0;
  for (int i = 0; i < 20; ++i) {
    testing_support::TempDir dir;
    Background brink({testing_support::BrinkBinary(), "record", "--source", "replay", "-F", "2000", "-o", dir.File("x"), "-p", std::to_string(target.pid())});
    // Any moment from the first samples on, which are a while after the start on a busy machine.
    struct stat st = {};
    for (int j = 0; j < 5000 && (stat(dir.File("x").c_str(), &st) != 0 || st.st_size < 20'000); ++j) usleep(2'000);
    usleep(random() % 400'000);
    uint64_t killed = Now();
    brink.Signal(SIGKILL);
    EXPECT_EQ(brink.Wait(), 128 + SIGKILL);
    FileFacts facts = ReadFacts(dir.File("x"));
    EXPECT_TRUE(facts.opened) << i;
    EXPECT_TRUE(facts.in_order) << i;
    with_samples += facts.samples > 0;
    // Rounds come every 100 ms; the rest is the machine's load.
    EXPECT_GT(facts.last_time_ns + 5'000'000'000, killed) << i;
  }
  EXPECT_EQ(with_samples, 20);
}

}  // namespace
}  // namespace brink::record_test
