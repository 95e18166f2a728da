#include "pipeline/item.h"

#include <gtest/gtest.h>

#include <vector>

namespace brink {
namespace {

std::vector<std::byte> MakeSample(uint16_t nr, uint16_t chain_nr, size_t size) {
  std::vector<std::byte> bytes(size);
  auto* sample = reinterpret_cast<brink_sample*>(bytes.data());
  sample->header = {BRINK_REC_SAMPLE, BRINK_ABI_VERSION, static_cast<uint32_t>(size)};
  sample->nr = nr;
  sample->chain_nr = chain_nr;
  return bytes;
}

TEST(ViewSample, FindsEntriesAndChainBehindTheHead) {
  auto bytes = MakeSample(2, 3, sizeof(brink_sample) + 2 * 24 + 3 * 8);
  auto* entries = reinterpret_cast<brink_branch*>(bytes.data() + sizeof(brink_sample));
  entries[1].to = 0x1234;
  reinterpret_cast<uint64_t*>(entries + 2)[2] = 0x77;
  auto view = ViewSample(bytes);
  ASSERT_TRUE(view);
  ASSERT_EQ(view->branches.size(), 2u);
  EXPECT_EQ(view->branches[1].to, 0x1234u);
  ASSERT_EQ(view->chain.size(), 3u);
  EXPECT_EQ(view->chain[2], 0x77u);
}

TEST(ViewSample, RefusesCountsThatTheRecordCannotHold) {
  EXPECT_FALSE(ViewSample(MakeSample(2, 0, sizeof(brink_sample) + 47)));
  EXPECT_FALSE(ViewSample(MakeSample(0xffff, 0xffff, sizeof(brink_sample) + 64)));
  EXPECT_FALSE(ViewSample(std::vector<std::byte>(sizeof(brink_sample) - 1)));
}

TEST(ForEachItem, WalksPaddedItemsAndStopsAtABrokenSize) {
  std::vector<std::byte> bytes(64);
  brink_rec_header header = {BRINK_REC_TASK, 1, 13};  // padded to 16
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.size = 48;
  std::memcpy(bytes.data() + 16, &header, sizeof(header));
  std::vector<size_t> sizes;
  EXPECT_TRUE(ForEachItem(bytes, [&](const brink_rec_header&, std::span<const std::byte> item) { sizes.push_back(item.size()); }));
  EXPECT_EQ(sizes, (std::vector<size_t>{13, 48}));
  header.size = 4;  // less than a header: would never end
  std::memcpy(bytes.data() + 16, &header, sizeof(header));
  EXPECT_FALSE(ForEachItem(bytes, [](auto&, auto) {}));
  header.size = 1000;
  std::memcpy(bytes.data() + 16, &header, sizeof(header));
  EXPECT_FALSE(ForEachItem(bytes, [](auto&, auto) {}));
}

TEST(ViewPerfRecord, SplitsTheTrailerOff) {
  std::vector<std::byte> item(8 + 16 + sizeof(SideBandId));
  SideBandId id = {.pid = 7, .time_ns = 99};
  std::memcpy(item.data() + 24, &id, sizeof(id));
  auto view = ViewPerfRecord(item);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->record.size(), 16u);
  EXPECT_EQ(view->id.pid, 7u);
  EXPECT_EQ(view->id.time_ns, 99u);
  item.pop_back();
  item.resize(40);
  EXPECT_FALSE(ViewPerfRecord(item));
}

TEST(LossCauseName, EveryCauseHasOne) {
  for (int i = 0; i < static_cast<int>(LossCause::kCount); ++i) EXPECT_STRNE(LossCauseName(static_cast<LossCause>(i)), "");
}

}  // namespace
}  // namespace brink
