#include "pipeline/pool.h"

#include <gtest/gtest.h>

#include <thread>

namespace brink {
namespace {

TEST(Buffer, RefusesWhatDoesNotFitAndKeepsItsContent) {
  Buffer buffer(64);
  EXPECT_NE(buffer.Append(40), nullptr);
  EXPECT_EQ(buffer.Append(32), nullptr);
  EXPECT_EQ(buffer.used(), 40u);
  EXPECT_NE(buffer.Append(24), nullptr);
  buffer.Clear();
  EXPECT_NE(buffer.Append(64), nullptr);
}

TEST(BufferPool, EachBufferIsInOnePlace) {
  BufferPool pool(2, 64);
  auto first = pool.TakeClean(), second = pool.TakeClean();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(pool.TakeClean(), nullptr);
  Buffer* sent = first.get();
  pool.PutDirty(std::move(first));
  EXPECT_EQ(pool.TakeClean(), nullptr);
  Parcel parcel = pool.TakeDirty();
  EXPECT_EQ(parcel.buffer.get(), sent);
  parcel.buffer->Append(8);
  pool.PutClean(std::move(parcel.buffer));
  auto again = pool.TakeClean();
  EXPECT_EQ(again.get(), sent);
  EXPECT_EQ(again->used(), 0u);
}

TEST(BufferPool, KeepsTheReserveForThoseWhoMayHaveIt) {
  BufferPool pool(2, 64);
  auto first = pool.TakeClean(1);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(pool.TakeClean(1), nullptr);
  EXPECT_NE(pool.TakeClean(0), nullptr);
}

TEST(BufferPool, ControlWordsKeepTheirPlaceBehindTheData) {
  BufferPool pool(3, 64);
  pool.PutDirty(pool.TakeClean());
  pool.PutControl(Control::kFlush);
  pool.PutDirty(pool.TakeClean());
  pool.PutControl(Control::kStop);
  EXPECT_TRUE(pool.TakeDirty().buffer);
  EXPECT_EQ(pool.TakeDirty().control, Control::kFlush);
  EXPECT_TRUE(pool.TakeDirty().buffer);
  EXPECT_EQ(pool.TakeDirty().control, Control::kStop);
  EXPECT_EQ(pool.most_dirty(), 2u);
}

TEST(BufferPool, RepeatedControlWordsDoNotGrowTheQueue) {
  BufferPool pool(2, 64);
  for (int i = 0; i < 1000; ++i) pool.PutControl(Control::kFlush);
  pool.PutControl(Control::kStop);
  EXPECT_EQ(pool.TakeDirty().control, Control::kFlush);
  EXPECT_EQ(pool.TakeDirty().control, Control::kStop);
}

TEST(BufferPool, BuffersCirculateBetweenThreads) {
  BufferPool pool(4, 64);
  constexpr int kRounds = 20000;
  uint64_t sum = 0;
  std::thread writer([&] {
    while (true) {
      Parcel parcel = pool.TakeDirty();
      if (!parcel.buffer) return;
      sum += static_cast<uint64_t>(parcel.buffer->bytes()[0]);
      pool.PutClean(std::move(parcel.buffer));
    }
  });
  int refused = 0;
  uint64_t sent = 0;
  for (int i = 0; i < kRounds; ++i) {
    auto buffer = pool.TakeClean();
    if (!buffer) {
      ++refused;
      continue;
    }
    *buffer->Append(8) = std::byte{3};
    sent += 3;
    pool.PutDirty(std::move(buffer));
  }
  pool.PutControl(Control::kStop);
  writer.join();
  EXPECT_EQ(sum, sent);
  EXPECT_LT(refused, kRounds);
}

}  // namespace
}  // namespace brink
