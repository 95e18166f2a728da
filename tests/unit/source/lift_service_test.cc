#include "source/lift_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "walk/hash.h"

namespace brink {
namespace {

constexpr uint64_t kCode = 0x400000;

class Tables : public WalkTables {
 public:
  void PutLines(std::span<const uint64_t> hashes, uint32_t slot) override {
    for (uint64_t hash : hashes) lines[hash] = slot;
  }
  void RemoveLine(uint64_t hash) override { lines.erase(hash); }
  bool PutProcess(uint64_t asid, const brink_walk_proc& proc) override {
    processes[asid] = proc;
    return true;
  }
  void RemoveProcess(uint64_t asid) override { processes.erase(asid); }
  bool WaitForWalks() override {
    ++waits;
    return quiet;
  }

  std::map<uint64_t, uint32_t> lines;
  std::map<uint64_t, brink_walk_proc> processes;
  int waits = 0;
  bool quiet = true;  // no walk is under way
};

// Instructions of the machine that lifts.
#if defined(__aarch64__)
constexpr std::array<uint8_t, 4> kReturn = {0xc0, 0x03, 0x5f, 0xd6}, kNop = {0x1f, 0x20, 0x03, 0xd5}, kBreakpoint = {0x00, 0x00, 0x20, 0xd4};
std::array<uint8_t, 4> Marked(uint32_t mark) {  // mov w0, mark
  const uint32_t word = 0x52800000 | (mark & 0xffff) << 5;
  return std::bit_cast<std::array<uint8_t, 4>>(word);
}
#else
constexpr std::array<uint8_t, 1> kReturn = {0xc3}, kNop = {0x90}, kBreakpoint = {0xcc};
std::array<uint8_t, 5> Marked(uint32_t mark) {  // mov eax, mark
  std::array<uint8_t, 5> code = {0xb8};
  std::memcpy(&code[1], &mark, sizeof(mark));
  return code;
}
#endif

class LiftServiceTest : public testing::Test {
 protected:
  explicit LiftServiceTest(size_t pages = 64) : uops_(pages * 640), pages_(pages), service_(uops_, pages_, &tables_, Options()) {}
  static LiftServiceOptions Options() {
    LiftServiceOptions options;
    options.ahead_pages = 0;
    return options;
  }

  // A page of `ret` at each multiple of 64 whose first byte block is marked, so that pages differ.
  static brink_miss Miss(uint32_t mark, uint64_t address = kCode) {
    brink_miss miss{};
    miss.header = {.type = BRINK_REC_MISS, .version = BRINK_ABI_VERSION, .size = sizeof(miss)};
    miss.asid = 7;
    miss.address = address;
    miss.tgid = static_cast<uint32_t>(getpid());
    miss.reason = BRINK_MISS_PAGE;
    miss.code_len = sizeof(miss.code);
    for (size_t at = 0; at + kReturn.size() <= sizeof(miss.code); at += kReturn.size()) std::copy(kReturn.begin(), kReturn.end(), miss.code + at);
    const auto marked = Marked(mark);
    std::copy(marked.begin(), marked.end(), std::copy(kNop.begin(), kNop.end(), miss.code));
    return miss;
  }
  static uint64_t HashOf(const brink_miss& miss, uint32_t line) {
    __u64 words[8];
    std::memcpy(words, miss.code + 64 * line, sizeof(words));
    return brink_walk_line_hash(words, line);
  }

  Tables tables_;
  std::vector<brink_uop> uops_;
  std::vector<brink_walk_page> pages_;
  LiftService service_;
};

TEST_F(LiftServiceTest, PublishesALineByItsContent) {
  brink_miss miss = Miss(1);
  service_.Handle(miss);
  ASSERT_TRUE(tables_.lines.contains(HashOf(miss, 0)));
  uint32_t slot = tables_.lines[HashOf(miss, 0)];
  EXPECT_NE(pages_[slot].line[0], 0u);
  // In an empty cache the rest of the page comes along.
  EXPECT_EQ(tables_.lines.size(), 64u);
}

TEST_F(LiftServiceTest, TheSamePageOfAnotherProcessIsLiftedOnce) {
  service_.Handle(Miss(1));
  brink_miss other = Miss(1, 0x7f0000000000);
  other.asid = 8;
  service_.Handle(other);
  EXPECT_EQ(service_.stats().pages, 1u);
  EXPECT_EQ(service_.stats().shared, 1u);
}

TEST_F(LiftServiceTest, ChangedCodeAtAnAddressBecomesAPageOfItsOwn) {
  service_.Handle(Miss(1));
  brink_miss changed = Miss(2);
  changed.reason = BRINK_MISS_CHANGED;
  service_.Handle(changed);
  EXPECT_EQ(service_.stats().pages, 2u);
  EXPECT_NE(tables_.lines[HashOf(Miss(1), 0)], tables_.lines[HashOf(changed, 0)]);
}

TEST_F(LiftServiceTest, AMissOfAProcessJudgesIt) {
  brink_miss miss = Miss(1);
  miss.reason = BRINK_MISS_PROCESS;
  miss.vm_stamp = 42;
  service_.Handle(miss);
  ASSERT_TRUE(tables_.processes.contains(7));
  EXPECT_EQ(tables_.processes[7].vm_stamp, 42u);
  EXPECT_FALSE(tables_.processes[7].flags & BRINK_PROC_REFUSED);
  EXPECT_GE(tables_.processes[7].nr_ranges, 1u) << "vvar";
}

TEST_F(LiftServiceTest, AProcessIsJudgedOnceUntilItsMappingsChange) {
  brink_miss miss = Miss(1);
  miss.reason = BRINK_MISS_PROCESS;
  miss.vm_stamp = 42;
  service_.Handle(miss);
  service_.Handle(miss);
  EXPECT_EQ(service_.stats().vetted, 1u);
  miss.vm_stamp = 43;
  service_.Handle(miss);
  EXPECT_EQ(service_.stats().vetted, 2u);
  EXPECT_EQ(tables_.processes[7].vm_stamp, 43u);
}

TEST_F(LiftServiceTest, ProcessesAreJudgedBesideTheLifting) {
  brink_miss process = Miss(1);
  process.reason = BRINK_MISS_PROCESS;
  for (int i = 0; i < 20; ++i) service_.Enqueue(std::as_bytes(std::span(&process, 1)));
  ASSERT_TRUE(service_.Start().ok());
  // Its code comes after the judgement.
  for (int i = 0; i < 30'000 && service_.stats().pages < 1; ++i) usleep(1000);
  service_.Stop();
  EXPECT_EQ(service_.stats().pages, 1u);
  EXPECT_EQ(service_.stats().vetted, 1u);
  EXPECT_EQ(service_.stats().merged, 19u);
  EXPECT_EQ(service_.stats().queue_full, 0u);
  EXPECT_TRUE(tables_.processes.contains(7));
}

TEST_F(LiftServiceTest, AFullQueueOfCodeKeepsNoProcessWaiting) {
  LiftServiceOptions options = Options();
  options.queue_limit = 1;
  LiftService small(uops_, pages_, &tables_, options);
  brink_miss code = Miss(1), process = Miss(2);
  process.reason = BRINK_MISS_PROCESS;
  for (const brink_miss* miss : {&code, &code, &process}) small.Enqueue(std::as_bytes(std::span(miss, 1)));
  EXPECT_EQ(small.stats().queue_full, 1u);
  ASSERT_TRUE(small.Start().ok());
  for (int i = 0; i < 30'000 && small.stats().vetted < 1; ++i) usleep(1000);
  small.Stop();
  EXPECT_EQ(small.stats().vetted, 1u);
}

TEST_F(LiftServiceTest, AProcessThatIsGoneIsCounted) {
  brink_miss miss = Miss(1);
  miss.reason = BRINK_MISS_PROCESS;
  miss.tgid = 0x7ffffff0;
  service_.Handle(miss);
  EXPECT_EQ(service_.stats().gone, 1u);
  EXPECT_TRUE(tables_.processes.empty());
}

// A walk that waits has asked for code and judgement at once.
TEST_F(LiftServiceTest, AProcessIsJudgedThoughItsCodeIsThereAlready) {
  brink_miss miss = Miss(1);
  miss.reason = BRINK_MISS_PROCESS;
  service_.Handle(miss, true);
  EXPECT_TRUE(tables_.processes.contains(7));
}

// The table of lines forgets where a bucket is full: who misses such a line finds it again.
TEST_F(LiftServiceTest, AForgottenLineIsEnteredAgainWhenItIsMissed) {
  service_.Handle(Miss(1));
  const uint32_t slot = tables_.lines[HashOf(Miss(1), 0)];
  ASSERT_NE(slot, 0u);
  tables_.lines.clear();
  service_.Handle(Miss(1));
  EXPECT_EQ(tables_.lines[HashOf(Miss(1), 0)], slot);
}

// The page begins with a breakpoint: nothing can be lifted there, unless somebody knows what it stands for.
TEST_F(LiftServiceTest, CodeUnderAProbeIsLiftedAsItWas) {
  brink_miss miss = Miss(1);
  std::copy(kBreakpoint.begin(), kBreakpoint.end(), miss.code);
  service_.Handle(miss);
  const uint32_t blind = tables_.lines[HashOf(miss, 0)];
  const auto lifted_at = [&](uint32_t slot, uint64_t offset) {
    const auto* block = reinterpret_cast<const brink_walk_block*>(&uops_[pages_[slot].line[0]]);
    return pages_[slot].line[0] != 0 && (block->lifted >> offset & 1) != 0;
  };
  EXPECT_FALSE(lifted_at(blind, 0));

  Tables tables;
  std::vector<brink_uop> uops(64 * 640);
  std::vector<brink_walk_page> pages(64);
  LiftServiceOptions options = Options();
  options.restore = [](std::span<const uint8_t> code, std::vector<uint8_t>* meant) {
    meant->assign(code.begin(), code.end());
    std::copy(kNop.begin(), kNop.end(), meant->begin());
    return true;
  };
  LiftService knows(uops, pages, &tables, options);
  knows.Handle(miss);
  uops_.swap(uops);
  pages_.swap(pages);
  // Found by the bytes that are in memory.
  ASSERT_TRUE(tables.lines.contains(HashOf(miss, 0)));
  EXPECT_TRUE(lifted_at(tables.lines[HashOf(miss, 0)], 0));
  uops_.swap(uops);
  pages_.swap(pages);
}

TEST_F(LiftServiceTest, AMissWithoutCodeIsCounted) {
  brink_miss miss = Miss(1);
  miss.code_len = 0;
  service_.Handle(miss);
  EXPECT_EQ(service_.stats().no_code, 1u);
}

TEST_F(LiftServiceTest, MalformedRecordsAreDropped) {
  brink_miss miss = Miss(1);
  auto bytes = std::as_bytes(std::span(&miss, 1));
  service_.Enqueue(bytes.first(10));
  service_.Enqueue(bytes.first(bytes.size() - 100));  // code_len says more than there is
  EXPECT_EQ(service_.stats().queue_full, 2u);
}

TEST_F(LiftServiceTest, TheThreadWorksTheQueueOffAndStops) {
  ASSERT_TRUE(service_.Start().ok());
  for (uint32_t i = 0; i < 20; ++i) {
    brink_miss miss = Miss(i);
    service_.Enqueue(std::as_bytes(std::span(&miss, 1)));
  }
  for (int i = 0; i < 30'000 && service_.stats().pages < 20; ++i) usleep(1000);
  service_.Stop();
  EXPECT_EQ(service_.stats().pages, 20u);
}

TEST_F(LiftServiceTest, AWalkThatWaitsIsServedAtOnceAndTheRestIsLeftToTheService) {
  brink_miss miss = Miss(1, kCode + 64);
  service_.LiftNow(std::as_bytes(std::span(&miss, 1)));
  EXPECT_TRUE(tables_.lines.contains(HashOf(miss, 1)));
  EXPECT_LT(tables_.lines.size(), 64u) << "the rest of the page";
  EXPECT_EQ(service_.stats().at_once, 1u);
  ASSERT_TRUE(service_.Start().ok());
  for (int i = 0; i < 30'000 && service_.stats().busy_ns == 0; ++i) usleep(1000);
  service_.Stop();
  EXPECT_EQ(tables_.lines.size(), 64u);
}

// The line that holds the code at an address of this process.
uint64_t HashHere(uint64_t address) {
  __u64 words[8];
  std::memcpy(words, reinterpret_cast<const void*>(address & ~uint64_t{63}), sizeof words);
  return brink_walk_line_hash(words, static_cast<__u32>(address >> 6 & 63));
}

__attribute__((noinline)) uint64_t ReturnsTo() { return reinterpret_cast<uint64_t>(__builtin_return_address(0)); }

TEST_F(LiftServiceTest, WhatTheFramesOnTheStackReturnToIsLiftedAhead) {
  LiftServiceOptions options = Options();
  options.ahead_pages = 8;
  LiftService service(uops_, pages_, &tables_, options);
  std::vector<uint64_t> stack(64, 1);
  const uint64_t back = ReturnsTo();
  brink_miss miss = Miss(1);
  service.Handle(miss);
  EXPECT_FALSE(tables_.lines.contains(HashHere(back))) << "no stack pointer is known";

  stack[1] = reinterpret_cast<uint64_t>(&ReturnsTo);  // code, and no call ends there
  stack[5] = back;
  miss = Miss(2);
  miss.sp = reinterpret_cast<uint64_t>(stack.data());
  service.Handle(miss);
  EXPECT_TRUE(tables_.lines.contains(HashHere(back)));
  EXPECT_GE(service.stats().ahead, 1u);
}

// 511 pages.
// What is to come is lifted on the caller's thread, whatever waits in the queue.
TEST_F(LiftServiceTest, WholePagesAreLiftedBesideTheQueue) {
  const brink_miss page = Miss(1);
  const uint64_t entries[] = {kCode, kCode + 8 * 64};
  EXPECT_TRUE(service_.LiftPage(9, page.code, entries));
  EXPECT_TRUE(tables_.lines.contains(HashOf(page, 0)));
  EXPECT_TRUE(tables_.lines.contains(HashOf(page, 8)));
  EXPECT_EQ(service_.stats().misses, 0u);
  EXPECT_EQ(service_.stats().pages, 1u);
  EXPECT_GE(service_.stats().ahead, 1u);
  // Again, and a walk that comes by later: nothing new.
  EXPECT_TRUE(service_.LiftPage(9, page.code, entries));
  service_.Handle(page);
  EXPECT_EQ(service_.stats().pages, 1u);
  EXPECT_EQ(service_.stats().shared, 1u);
  EXPECT_TRUE(service_.LiftPage(9, std::span(page.code).first(100), entries)) << "too short to be a page: nothing";
}

class BigCache : public LiftServiceTest {
 protected:
  BigCache() : LiftServiceTest(512) {}
};

TEST_F(BigCache, IsNeverQuiteFull) {
  for (uint32_t i = 0; i < 400; ++i) {
    brink_miss miss = Miss(i);
    service_.Handle(miss);
    brink_miss waiting = Miss(1000 + i);
    service_.LiftNow(std::as_bytes(std::span(&waiting, 1)));
    ASSERT_EQ(service_.stats().at_once, i + 1) << "nothing is evicted for a walk that waits";
  }
  EXPECT_GE(tables_.waits, 1);
}

class SmallCache : public LiftServiceTest {
 protected:
  SmallCache() : LiftServiceTest(9) {}
};

TEST_F(SmallCache, EvictsTheOldestAfterAGracePeriodAndForgetsItsLines) {
  for (uint32_t i = 0; i < 9; ++i) service_.Handle(Miss(i));
  EXPECT_EQ(tables_.waits, 1);
  EXPECT_GE(service_.stats().evicted, 1u);
  EXPECT_FALSE(tables_.lines.contains(HashOf(Miss(0), 0)));
  EXPECT_TRUE(tables_.lines.contains(HashOf(Miss(8), 0)));
  EXPECT_LE(service_.stats().pages, 8u);
}

TEST_F(SmallCache, NothingIsEvictedForWhatIsOnlyToCome) {
  const uint64_t entry[] = {kCode};
  uint32_t had_room = 0;
  for (uint32_t i = 0; i < 20; ++i) had_room += service_.LiftPage(9, Miss(i).code, entry);
  EXPECT_GE(had_room, 1u);
  EXPECT_LE(had_room, 8u);
  EXPECT_EQ(service_.stats().evicted, 0u);
  EXPECT_TRUE(tables_.lines.contains(HashOf(Miss(0), 0)));
}

TEST_F(SmallCache, SparesPagesThatWalksUse) {
  for (uint32_t i = 0; i < 8; ++i) service_.Handle(Miss(i));
  pages_[tables_.lines[HashOf(Miss(0), 0)]].used = 1;
  service_.Handle(Miss(8));
  EXPECT_TRUE(tables_.lines.contains(HashOf(Miss(0), 0)));
  EXPECT_FALSE(tables_.lines.contains(HashOf(Miss(1), 0)));
}

TEST_F(SmallCache, EveryPublishedLineLeadsToItsPageWhateverComesAndGoes) {
  uint32_t seed = 1;
  for (int i = 0; i < 2000; ++i) {
    seed = seed * 1103515245 + 12345;
    service_.Handle(Miss(seed >> 16 & 15));
    for (const auto& [hash, slot] : tables_.lines) {
      bool found = false;
      for (uint32_t line = 0; line < 64 && !found; ++line) {
        __u64 words[8];
        if (pages_[slot].line[line] == 0) continue;
        std::memcpy(words, &uops_[pages_[slot].line[line] + BRINK_WALK_MORE_HEAD], sizeof(words));
        found = brink_walk_line_hash(words, line) == hash;
      }
      ASSERT_TRUE(found);
    }
  }
  EXPECT_GT(service_.stats().evicted, 100u);
}

}  // namespace
}  // namespace brink
