#include "session/side_band.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "perfdata/encode.h"
#include "session/synth.h"

namespace brink {
namespace {

struct Events {
  std::vector<pid_t> changed, exited;
  uint64_t lost = 0;
  SideBandFilter::Callbacks callbacks() {
    return {.process_changed = [this](pid_t pid, bool gone) { (gone ? exited : changed).push_back(pid); },
            .overflow = [this](uint64_t n) { lost += n; }};
  }
};

struct Maker {
  perfdata::RecordEncoder encoder{[] {
    perfdata::EventAttr attr;
    attr.sample_type = kSideBandSampleType;
    attr.flags = perfdata::kAttrSampleIdAll;
    return attr;
  }()};
  std::vector<std::byte> scratch = std::vector<std::byte>(4096);
  std::span<const std::byte> Fork(uint32_t parent, uint32_t pid, uint32_t tid) {
    return std::span(scratch).first(encoder.Fork(scratch, {.pid = pid, .ppid = parent, .tid = tid, .ptid = parent}, {}));
  }
  std::span<const std::byte> Exit(uint32_t pid, uint32_t tid) {
    return std::span(scratch).first(encoder.Exit(scratch, {.pid = pid, .tid = tid}, {}));
  }
  std::span<const std::byte> Comm(uint32_t pid, bool exec) {
    return std::span(scratch).first(encoder.Comm(scratch, pid, pid, "x", exec, {}));
  }
  std::span<const std::byte> Mmap(uint32_t pid) {
    return std::span(scratch).first(encoder.Mmap2(scratch, {.pid = pid, .tid = pid, .filename = "/bin/x"}, {}));
  }
};

TEST(SideBandFilter, FollowsChildrenOfTheTarget) {
  Events events;
  SideBandFilter filter(false, true, events.callbacks());
  Maker maker;
  filter.Follow(100);
  EXPECT_FALSE(filter.Take(maker.Mmap(200)));
  EXPECT_TRUE(filter.Take(maker.Fork(100, 200, 200)));
  EXPECT_TRUE(filter.Take(maker.Mmap(200)));
  EXPECT_TRUE(filter.Take(maker.Fork(200, 300, 300)));
  EXPECT_TRUE(filter.Take(maker.Comm(300, true)));
  EXPECT_FALSE(filter.Take(maker.Fork(999, 998, 998)));
  EXPECT_EQ(events.changed, (std::vector<pid_t>{200, 300}));
}

TEST(SideBandFilter, LeavesChildrenAloneWhenToldSo) {
  Events events;
  SideBandFilter filter(false, false, events.callbacks());
  Maker maker;
  filter.Follow(100);
  EXPECT_FALSE(filter.Take(maker.Fork(100, 200, 200)));
  EXPECT_TRUE(filter.Take(maker.Fork(100, 100, 101)));  // a thread
  EXPECT_FALSE(filter.Take(maker.Mmap(200)));
}

// What has ended and is gone is let go a second later; what is still there, or was born again, is not.
TEST(SideBandFilter, ForgetsTheDeadAndOnlyThem) {
  Events events;
  SideBandFilter filter(false, true, events.callbacks());
  Maker maker;
  uint64_t now = 1;
  auto round = [&](uint64_t later_ns) { filter.ForgetEnded(now += later_ns); };
  constexpr uint64_t kSecond = 1'000'000'000;
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  const uint32_t dead = static_cast<uint32_t>(gone), alive = static_cast<uint32_t>(getpid());
  filter.Follow(100);
  filter.Take(maker.Fork(100, dead, dead));
  filter.Take(maker.Fork(100, alive, alive));
  round(2 * kSecond);
  round(2 * kSecond);
  EXPECT_TRUE(filter.follows(gone)) << "its end was not told yet";
  filter.Take(maker.Exit(dead, dead + 1));
  round(2 * kSecond);
  round(2 * kSecond);
  EXPECT_TRUE(filter.follows(gone)) << "a thread ended";
  filter.Take(maker.Exit(dead, dead));
  filter.Take(maker.Exit(alive, alive));  // its first thread: others run on
  round(kSecond);
  round(kSecond / 2);
  EXPECT_TRUE(filter.Take(maker.Mmap(dead))) << "its last records, which rings still hold";
  round(kSecond);
  EXPECT_FALSE(filter.Take(maker.Mmap(dead)));
  EXPECT_FALSE(filter.follows(gone));
  EXPECT_TRUE(filter.follows(getpid()));
  filter.Take(maker.Fork(100, dead, dead));
  filter.Take(maker.Exit(dead, dead));
  round(2 * kSecond);
  filter.Take(maker.Fork(100, dead, dead));
  round(2 * kSecond);
  EXPECT_TRUE(filter.follows(gone)) << "the number is used again";
}

TEST(SideBandFilter, AReusedPidOfAStrangerIsNoTarget) {
  Events events;
  SideBandFilter filter(false, true, events.callbacks());
  Maker maker;
  filter.Follow(100);
  EXPECT_TRUE(filter.Take(maker.Fork(100, 200, 200)));
  EXPECT_TRUE(filter.Take(maker.Exit(200, 200)));
  EXPECT_TRUE(filter.Take(maker.Mmap(200)));  // another of its threads, still running
  EXPECT_FALSE(filter.Take(maker.Fork(7, 200, 200)));
  EXPECT_FALSE(filter.Take(maker.Mmap(200)));
  EXPECT_EQ(events.exited, (std::vector<pid_t>{200}));
}

TEST(SideBandFilter, CountsWhatTheKernelDropped) {
  Events events;
  SideBandFilter filter(false, true, events.callbacks());
  struct {
    perf_event_header header = {PERF_RECORD_LOST, 0, sizeof(*this)};
    uint64_t id = 1, lost = 17;
    SideBandId trailer = {};
  } record;
  EXPECT_TRUE(filter.Take(std::as_bytes(std::span(&record, 1))));
  EXPECT_EQ(events.lost, 17u);
}

TEST(SideBandFilter, TakesEverybodyWithoutATarget) {
  Events events;
  SideBandFilter filter(true, true, events.callbacks());
  Maker maker;
  EXPECT_TRUE(filter.Take(maker.Mmap(5)));
  EXPECT_TRUE(filter.Take(maker.Fork(8, 9, 9)));
}

}  // namespace
}  // namespace brink
