#include "walk/line_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace brink::walk {
namespace {

// As the walker looks (bpf/walk/env.h).
uint32_t Find(std::span<const brink_walk_xlat> buckets, uint64_t hash) {
  for (uint64_t entry : buckets[hash & (buckets.size() - 1)].entry) {
    if (entry >> 32 == hash >> 32) return static_cast<uint32_t>(entry);
  }
  return 0;
}

uint64_t HashOf(uint64_t bucket, uint64_t tag) { return tag << 32 | bucket; }

TEST(LineTable, FindsWhatWasPutAndNotWhatWasRemoved) {
  std::vector<brink_walk_xlat> buckets(16);
  LineTable table(buckets);
  table.Put(HashOf(3, 77), 5);
  table.Put(HashOf(3, 78), 6);
  table.Put(HashOf(3, 77), 9);  // another page has the same line
  EXPECT_EQ(Find(buckets, HashOf(3, 77)), 9u);
  EXPECT_EQ(Find(buckets, HashOf(3, 78)), 6u);
  EXPECT_EQ(Find(buckets, HashOf(4, 77)), 0u);
  table.Remove(HashOf(3, 77));
  EXPECT_EQ(Find(buckets, HashOf(3, 77)), 0u);
  EXPECT_EQ(Find(buckets, HashOf(3, 78)), 6u);
}

TEST(LineTable, AFullBucketGivesAnOldLineUpForANewOne) {
  std::vector<brink_walk_xlat> buckets(1);
  LineTable table(buckets);
  for (uint64_t tag = 1; tag <= 100; ++tag) {
    table.Put(HashOf(0, tag), static_cast<uint32_t>(tag));
    ASSERT_EQ(Find(buckets, HashOf(0, tag)), tag);
  }
  size_t left = 0;
  for (uint64_t tag = 1; tag <= 100; ++tag) left += Find(buckets, HashOf(0, tag)) == tag;
  EXPECT_EQ(left, size_t{BRINK_XLAT_WAYS});
}

TEST(LineTable, BucketsAreAPowerOfTwo) {
  for (uint64_t lines : {uint64_t{0}, uint64_t{1000}, uint64_t{83886}, uint64_t{1} << 40}) {
    const uint32_t buckets = LineTable::BucketsFor(lines);
    EXPECT_EQ(buckets & (buckets - 1), 0u);
    EXPECT_GE(buckets, 64u);
  }
  EXPECT_EQ(LineTable::BucketsFor(83886), 32768u);
}

}  // namespace
}  // namespace brink::walk
