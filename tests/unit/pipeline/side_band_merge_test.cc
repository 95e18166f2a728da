#include "pipeline/side_band_merge.h"

#include <gtest/gtest.h>

#include <cstring>

#include "pipeline/item.h"

namespace brink {
namespace {

struct Fixture {
  void Add(uint64_t time_ns, uint32_t tag, size_t extra = 0) {
    std::vector<std::byte> record(16 + extra + sizeof(SideBandId));
    std::memcpy(record.data(), &tag, sizeof(tag));
    SideBandId id = {.time_ns = time_ns};
    std::memcpy(record.data() + 16 + extra, &id, sizeof(id));
    merge.Add(record);
  }
  std::vector<uint32_t> Release(uint64_t until) {
    std::vector<uint32_t> tags;
    merge.Release(until, [&](std::span<const std::byte> record) {
      uint32_t tag;
      std::memcpy(&tag, record.data(), sizeof(tag));
      tags.push_back(tag);
    });
    return tags;
  }
  SideBandMerge merge;
};

TEST(SideBandMerge, OrdersByTimeAcrossRings) {
  Fixture f;
  f.Add(30, 3, 8);
  f.Add(50, 5);
  f.Add(10, 1, 100);
  f.Add(40, 4);
  f.Add(20, 2);
  EXPECT_EQ(f.Release(100), (std::vector<uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(f.merge.size(), 0u);
}

TEST(SideBandMerge, KeepsWhatAnotherRingMayStillPrecede) {
  Fixture f;
  f.Add(30, 3);
  f.Add(10, 1, 40);
  EXPECT_EQ(f.Release(20), (std::vector<uint32_t>{1}));
  f.Add(25, 2);
  EXPECT_EQ(f.Release(30), (std::vector<uint32_t>{2, 3}));
}

TEST(SideBandMerge, EqualTimesKeepTheirOrder) {
  Fixture f;
  for (uint32_t tag = 0; tag < 50; ++tag) f.Add(7, tag);
  std::vector<uint32_t> tags = f.Release(7);
  for (uint32_t tag = 0; tag < 50; ++tag) EXPECT_EQ(tags[tag], tag);
}

}  // namespace
}  // namespace brink
