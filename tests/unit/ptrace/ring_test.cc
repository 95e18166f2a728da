#include "ptrace/ring.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/status_matchers.h"

namespace brink::ptrace {
namespace {

using brink::testing_support::IsOk;

struct Item {
  brink_rec_header header;
  uint64_t number;
  uint64_t body[18];
};

Item MakeItem(uint64_t number) {
  Item item = {};
  item.header = {BRINK_REC_SAMPLE, BRINK_ABI_VERSION, sizeof item};
  item.number = number;
  for (uint64_t& word : item.body) word = number * 3;
  return item;
}

bool Put(SharedRing& ring, const Item& item) {
  // In two pieces, as samples are written.
  auto* bytes = reinterpret_cast<const uint8_t*>(&item);
  const std::span<const uint8_t> pieces[] = {{bytes, 16}, {bytes + 16, sizeof item - 16}};
  return ring.Write(pieces);
}

TEST(SharedRing, RefusesSizesThatAreNoPowerOfTwo) {
  EXPECT_FALSE(SharedRing::Create(100'000).ok());
  EXPECT_FALSE(SharedRing::Create(4096).ok());
}

TEST(SharedRing, GivesBackWhatWasWrittenAcrossTheWrap) {
  auto ring = SharedRing::Create(64 << 10);
  ASSERT_THAT(ring, IsOk());
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Put(**ring, MakeItem(i)));
    if (i % 100 != 99) continue;
    auto count = (*ring)->Drain([&](const brink_rec_header& header) {
      const Item& item = reinterpret_cast<const Item&>(header);
      EXPECT_EQ(item.number, expected);
      EXPECT_EQ(item.body[17], expected * 3);
      ++expected;
    });
    EXPECT_EQ(*count, 100u);
  }
  EXPECT_EQ(expected, 5000u);
}

TEST(SharedRing, IsBounded) {
  auto ring = SharedRing::Create(64 << 10);
  ASSERT_THAT(ring, IsOk());
  size_t fitted = 0;
  while (Put(**ring, MakeItem(fitted))) ++fitted;
  EXPECT_EQ(fitted, (64u << 10) / sizeof(Item));
  EXPECT_EQ(*(*ring)->Drain([](const brink_rec_header&) {}), fitted);
  EXPECT_TRUE(Put(**ring, MakeItem(0)));
}

TEST(SharedRing, CarriesRecordsAndCountersBetweenProcesses) {
  auto ring = SharedRing::Create(64 << 10);
  ASSERT_THAT(ring, IsOk());
  constexpr uint64_t kCount = 20'000;
  pid_t child = ::fork();
  if (child == 0) {
    for (uint64_t i = 0; i < kCount;) {
      if (Put(**ring, MakeItem(i))) ++i;
    }
    (*ring)->Count(kBranches, kCount);
    ::_exit(0);
  }
  uint64_t expected = 0;
  while (expected < kCount) {
    auto drained = (*ring)->Drain([&](const brink_rec_header& header) {
      ASSERT_EQ(reinterpret_cast<const Item&>(header).number, expected);
      ++expected;
    });
    ASSERT_THAT(drained, IsOk());
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ((*ring)->counter(kBranches), kCount);
}

TEST(SharedRing, ASizeThatCannotBeIsDataLoss) {
  auto ring = SharedRing::Create(64 << 10);
  ASSERT_THAT(ring, IsOk());
  Item item = MakeItem(1);
  item.header.size = 1 << 20;
  ASSERT_TRUE(Put(**ring, item));
  EXPECT_FALSE((*ring)->Drain([](const brink_rec_header&) { FAIL(); }).ok());
}

TEST(Counters, EveryOneHasAName) {
  for (uint32_t i = 0; i < kCounterCount; ++i) {
    EXPECT_FALSE(CounterName(i).empty()) << i;
    EXPECT_NE(CounterName(i), "unknown") << i;
  }
}

}  // namespace
}  // namespace brink::ptrace
