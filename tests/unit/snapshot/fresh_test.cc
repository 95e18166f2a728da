// What a snapshot holds behind its new entries: the drivers' buffer as the snapshot before has left it.
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "lib/fresh.h"

namespace brink {
namespace {

using Entries = std::vector<brink_branch>;
constexpr uint32_t kDepth = 32;
constexpr uint64_t kKernel = 0xffffffff81000000;

// Branch `n` of a run through code: each leads to shortly before the next. Newest first in the result.
Entries Straight(uint64_t base, uint32_t count, uint64_t cycles) {
  Entries out;
  for (uint32_t n = 0; n < count; ++n) out.insert(out.begin(), brink_branch{.from = base + n * 64 + 32, .to = base + (n + 1) * 64, .info = cycles << 4});
  return out;
}

// The driver's buffer after it has read `recorded` (newest first), given what it was before.
Entries Read(Entries buffer, const Entries& recorded) {
  std::copy_n(recorded.begin(), std::min<size_t>(recorded.size(), kDepth), buffer.begin());
  return buffer;
}

// What came since the thread was let run: `count` branches, the first of which is the kernel's way back.
Entries SinceSwitch(uint64_t base, uint32_t count, uint64_t cycles) {
  Entries out = Straight(base, count - 1, cycles);
  out.push_back(brink_branch{.from = kKernel, .to = base, .info = cycles << 4});
  return out;
}

uint32_t Fresh(const Entries& now, const Entries& before) { return brink_fresh_entries(now.data(), before.data(), kDepth); }

TEST(Fresh, WhatTheSwitchHasLeftIsAllThereIs) {
  const Entries before = Read(Entries(kDepth), Straight(0x401000, kDepth, 7));
  for (uint32_t count : {1u, 2u, 9u, kDepth - 1}) EXPECT_EQ(Fresh(Read(before, SinceSwitch(0x502000, count, 9)), before), count);
}

TEST(Fresh, AFullHistoryStaysWhole) {
  const Entries before = Read(Entries(kDepth), Straight(0x401000, kDepth, 7));
  EXPECT_EQ(Fresh(Read(before, Straight(0x502000, kDepth, 9)), before), kDepth);
  EXPECT_EQ(Fresh(Read(before, Straight(0x401000, kDepth + 3, 7)), before), kDepth);  // the same code, further on
}

// Each sleep is followed by the same few branches, without cycles: the whole buffer is as it was.
TEST(Fresh, ALoopAroundASleepEndsAtTheWayBackFromTheKernel) {
  const Entries first = Read(Read(Entries(kDepth), Straight(0x401000, kDepth, 0)), SinceSwitch(0x502000, 5, 0));
  EXPECT_EQ(Fresh(Read(first, SinceSwitch(0x502000, 5, 0)), first), 5u);
}

TEST(Fresh, ALongLoopWithoutTheKernelIsNotTakenForOld) {
  const Entries before = Read(Entries(kDepth), Straight(0x401000, kDepth, 0));
  EXPECT_EQ(Fresh(Read(before, Straight(0x401000, kDepth, 0)), before), kDepth);
}

TEST(Fresh, TheFirstOfACpuEndsAtItsFirstSeam) {
  const Entries now = Read(Straight(0x401000, kDepth, 7), SinceSwitch(0x502000, 9, 9));
  EXPECT_EQ(brink_fresh_run(now.data(), kDepth), 9u);
  EXPECT_EQ(brink_fresh_run(Straight(0x401000, kDepth, 7).data(), kDepth), kDepth);
  EXPECT_EQ(brink_fresh_run(now.data(), 0), 0u);
}

// Whatever was recorded and however often the registers were emptied: never an entry that is not of now.
TEST(Fresh, NothingOldIsEverLeft) {
  std::mt19937_64 random(20261201);
  for (int round = 0; round < 20'000; ++round) {
    Entries buffer(kDepth), before;
    uint32_t recorded = 0;
    for (int snapshot = 0; snapshot < 4; ++snapshot) {
      before = buffer;
      recorded = 1 + random() % (kDepth + 8);
      buffer = Read(buffer, SinceSwitch(0x400000 + random() % 3 * 0x100000, recorded, random() % 2));
    }
    ASSERT_LE(Fresh(buffer, before), std::min(recorded, kDepth)) << "round " << round;
    ASSERT_GE(Fresh(buffer, before), 1u) << "round " << round;
  }
}

}  // namespace
}  // namespace brink
