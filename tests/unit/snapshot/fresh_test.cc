// What a snapshot holds behind its new entries: the drivers' buffer as the snapshot before has left it.
#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lib/fresh.h"

namespace brink {
namespace {

constexpr uint32_t kDepth = 32;
constexpr uint64_t kKernel = 0xffffffff81000000;

// A CPU with a driver as Intel's: registers that are emptied at each switch, one buffer for all readings, and brink's
// programs, which do what bpf/lib/snapshot.h does.
class Machine {
 public:
  // The running thread takes `count` branches of straight code at `base`.
  void Run(uint64_t base, uint32_t count, uint64_t cycles) {
    for (uint32_t n = 0; n < count; ++n) Branch({.from = base + n * 64 + 32, .to = base + (n + 1) * 64, .info = cycles << 4});
  }

  // Another thread (or the same again) is let run, at `base`.
  void Switch(uint64_t thread, uint64_t base) {
    stint_ = thread << 32 | ++switches_;
    registers_.clear();
    Branch({.from = kKernel, .to = base, .info = 0});
  }

  // Number of entries that are given out; `settled` false: the hit was not wanted, and nobody asked.
  uint32_t Snapshot(bool settled = true) {
    const uint32_t seq = ++cpu_->seq;
    brink_snapshot_slot& slot = cpu_->half[seq & 1];
    std::copy(registers_.begin(), registers_.end(), buffer_.begin());
    std::copy(buffer_.begin(), buffer_.end(), slot.entries);
    slot.bytes = kDepth * sizeof(brink_branch);
    slot.seq = seq;
    cpu_->stint[seq & 1] = stint_;
    cpu_->count[seq & 1] = 0;
    if (!settled) return 0;
    return cpu_->count[seq & 1] = brink_fresh_entries(cpu_.get(), seq, kDepth);
  }

  uint32_t recorded() const { return static_cast<uint32_t>(registers_.size()); }
  brink_snapshot_cpu& cpu() { return *cpu_; }

 private:
  void Branch(brink_branch branch) {
    registers_.push_front(branch);
    if (registers_.size() > kDepth) registers_.pop_back();
  }

  std::deque<brink_branch> registers_;
  std::vector<brink_branch> buffer_ = std::vector<brink_branch>(kDepth);
  std::unique_ptr<brink_snapshot_cpu> cpu_ = std::make_unique<brink_snapshot_cpu>();
  uint64_t stint_ = 0;
  uint32_t switches_ = 0;
};

// A thread whose history has been read whole.
Machine Warm() {
  Machine machine;
  machine.Switch(1, 0x400000);
  machine.Run(0x401000, kDepth + 9, 7);
  machine.Snapshot();
  return machine;
}

TEST(Fresh, WhatTheSwitchHasLeftIsAllThereIs) {
  for (uint32_t count : {0u, 1u, 9u, kDepth - 2}) {
    Machine machine = Warm();
    machine.Switch(2, 0x500000);
    machine.Run(0x502000, count, 9);
    EXPECT_EQ(machine.Snapshot(), count + 1);
  }
}

TEST(Fresh, AFullHistoryStaysWhole) {
  Machine machine = Warm();
  machine.Run(0x502000, kDepth, 9);
  EXPECT_EQ(machine.Snapshot(), kDepth);
  machine.Run(0x401000, 2, 7);
  EXPECT_EQ(machine.Snapshot(), kDepth);
  EXPECT_EQ(machine.Snapshot(), kDepth);  // nothing has come since
  machine.Switch(1, 0x400000);
  machine.Run(0x401000, kDepth + 3, 7);
  EXPECT_EQ(machine.Snapshot(), kDepth);
}

// Two system calls after a sleep: the second's history is the first's and what came since.
TEST(Fresh, WhatWasShortGrowsByWhatComes) {
  Machine machine = Warm();
  machine.Switch(2, 0x500000);
  machine.Run(0x502000, 2, 9);
  EXPECT_EQ(machine.Snapshot(), 3u);
  machine.Run(0x503000, 2, 9);
  EXPECT_EQ(machine.Snapshot(), 5u);
  EXPECT_EQ(machine.Snapshot(), 5u);
  machine.Run(0x504000, kDepth, 9);
  EXPECT_EQ(machine.Snapshot(), kDepth);
}

// The same, where nobody has asked what the first was worth.
TEST(Fresh, AHitThatNobodyWantedTeachesNothing) {
  Machine machine = Warm();
  machine.Switch(2, 0x500000);
  machine.Run(0x502000, 2, 9);
  machine.Snapshot(false);
  machine.Run(0x503000, 2, 9);
  EXPECT_EQ(machine.Snapshot(), 5u);
}

// Each sleep is followed by the same few branches, without cycles: the whole buffer is as it was.
TEST(Fresh, ALoopAroundASleepEndsAtTheWayBackFromTheKernel) {
  Machine machine = Warm();
  for (int round = 0; round < 4; ++round) {
    machine.Switch(1, 0x500000);
    machine.Run(0x500000, 4, 0);
    EXPECT_EQ(machine.Snapshot(), 5u) << round;
  }
}

TEST(Fresh, TheFirstOfACpuEndsAtItsFirstSeam) {
  Machine machine;
  machine.Switch(1, 0x400000);
  machine.Run(0x400000, 8, 0);
  EXPECT_EQ(machine.Snapshot(), 9u);
  Machine failed = Warm();
  failed.Switch(1, 0x500000);
  failed.Run(0x500000, 3, 0);
  failed.cpu().half[failed.cpu().seq & 1].bytes = -2;  // the helper's error: what it left is not known
  EXPECT_EQ(failed.Snapshot(), 4u);
}

// Whatever was recorded, whoever ran and whichever snapshots were asked for: never an entry that is not of now.
TEST(Fresh, NothingOldIsEverLeft) {
  std::mt19937_64 random(20261201);
  uint64_t given = 0, there = 0;
  for (int round = 0; round < 5'000; ++round) {
    Machine machine;
    machine.Switch(1, 0x400000);
    for (int step = 0; step < 12; ++step) {
      const uint64_t base = 0x400000 + random() % 3 * 0x100000;
      if (random() % 2) machine.Switch(random() % 2, base);
      machine.Run(base, random() % (kDepth + 8), random() % 2);
      const bool settled = random() % 4;
      const uint32_t count = machine.Snapshot(settled);
      if (!settled) continue;
      ASSERT_LE(count, machine.recorded()) << "round " << round << " step " << step;
      ASSERT_GE(count, 1u);
      given += count;
      there += machine.recorded();
    }
  }
  EXPECT_GT(given, there * 8 / 10);  // and most of what is there
}

}  // namespace
}  // namespace brink
