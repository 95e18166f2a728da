#include "pipeline/bpf_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace brink {
namespace {

constexpr size_t kPage = 4096, kSize = 4096;

// A ring in memory with the kernel's protocol on the producer's side. Data is written twice, as the double mapping has it.
class FakeRing {
 public:
  FakeRing() : consumer_(kPage), producer_(kPage + 2 * kSize), ring(consumer_.data(), producer_.data(), kSize) {}

  // False: full. `busy` leaves the record unfinished; Finish ends it.
  bool Produce(uint64_t value, uint32_t bytes, bool busy = false, bool discard = false) {
    uint64_t position = Load(producer_.data());
    uint64_t need = (bytes + 8 + 7) & ~7u;
    if (position + need - Load(consumer_.data()) > kSize) return false;
    std::vector<std::byte> record(need);
    uint32_t length = bytes | 1u << 31;
    std::memcpy(record.data(), &length, 4);
    if (bytes >= 8) std::memcpy(record.data() + 8, &value, 8);
    for (size_t i = 0; i < need; ++i) Put(position + i, record[i]);
    Store(producer_.data(), position + need);
    if (!busy) Finish(position, bytes | (discard ? 1u << 30 : 0));
    return true;
  }
  void Finish(uint64_t position, uint32_t length) {
    for (size_t copy : {size_t{0}, kSize}) {
      auto* at = reinterpret_cast<std::atomic<uint32_t>*>(producer_.data() + kPage + (position & (kSize - 1)) + copy);
      at->store(length, std::memory_order_release);
    }
  }
  uint64_t consumed() { return Load(consumer_.data()); }

 private:
  static uint64_t Load(std::byte* at) { return reinterpret_cast<std::atomic<uint64_t>*>(at)->load(std::memory_order_acquire); }
  static void Store(std::byte* at, uint64_t v) { reinterpret_cast<std::atomic<uint64_t>*>(at)->store(v, std::memory_order_release); }
  void Put(uint64_t position, std::byte value) {
    size_t offset = position & (kSize - 1);
    producer_[kPage + offset] = value;
    producer_[kPage + kSize + offset] = value;
  }
  std::vector<std::byte> consumer_, producer_;

 public:
  BpfRing ring;
};

std::vector<uint64_t> DrainAll(FakeRing& fake) {
  std::vector<uint64_t> values;
  fake.ring.Drain([&](std::span<const std::byte> record) {
    uint64_t value;
    std::memcpy(&value, record.data(), 8);
    values.push_back(value);
  });
  return values;
}

TEST(BpfRing, DrainsInOrderAndGivesTheSpaceBack) {
  FakeRing fake;
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(fake.Produce(i, 16));
  EXPECT_EQ(fake.ring.fill(), 3u * 24);
  EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(fake.ring.fill(), 0u);
  EXPECT_EQ(fake.consumed(), 3u * 24);
}

TEST(BpfRing, StopsAtARecordThatIsNotFinished) {
  FakeRing fake;
  ASSERT_TRUE(fake.Produce(1, 16));
  ASSERT_TRUE(fake.Produce(2, 16, /*busy=*/true));
  ASSERT_TRUE(fake.Produce(3, 16));
  EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{1}));
  fake.Finish(24, 16);
  EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{2, 3}));
}

TEST(BpfRing, SkipsDiscardedRecords) {
  FakeRing fake;
  ASSERT_TRUE(fake.Produce(1, 16, false, /*discard=*/true));
  ASSERT_TRUE(fake.Produce(2, 16));
  EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{2}));
}

TEST(BpfRing, ReadsRecordsThatWrap) {
  FakeRing fake;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(fake.Produce(i, 1000));
    EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{i}));
  }
}

TEST(BpfRing, ARoundEndsAtWhatWasThereWhenItBegan) {
  FakeRing fake;
  ASSERT_TRUE(fake.Produce(1, 16));
  size_t calls = fake.ring.Drain([&](std::span<const std::byte>) { ASSERT_TRUE(fake.Produce(2, 16)); });
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(DrainAll(fake), (std::vector<uint64_t>{2}));
}

// The ring's order rules with a producer on another thread; sanitizers see nothing of the kernel's side.
TEST(BpfRing, LosesNothingAgainstAConcurrentProducer) {
  FakeRing fake;
  constexpr uint64_t kCount = 100000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount;) {
      if (fake.Produce(i, 8 + 8 * (i % 20))) ++i;
      else std::this_thread::yield();
    }
  });
  uint64_t expected = 0, wrong = 0;
  while (expected < kCount) {
    fake.ring.Drain([&](std::span<const std::byte> record) {
      uint64_t value;
      std::memcpy(&value, record.data(), 8);
      wrong += value != expected || record.size() != 8 + 8 * (expected % 20);
      ++expected;
    });
    if (fake.ring.fill() == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace brink
