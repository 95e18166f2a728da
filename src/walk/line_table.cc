#include "walk/line_table.h"

#include <algorithm>
#include <bit>

namespace brink::walk {
namespace {

constexpr uint64_t kLinesPerBucket = 4;

void Store(__u64* entry, uint64_t value) { __atomic_store_n(entry, value, __ATOMIC_RELEASE); }

}  // namespace

uint32_t LineTable::BucketsFor(uint64_t lines) {
  return std::bit_ceil(static_cast<uint32_t>(std::clamp<uint64_t>(lines / kLinesPerBucket, 64, 1 << 24)));
}

void LineTable::Put(uint64_t hash, uint32_t slot) {
  brink_walk_xlat& bucket = buckets_[hash & (buckets_.size() - 1)];
  const uint64_t tag = hash >> 32;
  auto at = std::find_if(std::begin(bucket.entry), std::end(bucket.entry), [&](uint64_t entry) { return entry != 0 && entry >> 32 == tag; });
  if (at == std::end(bucket.entry)) at = std::find(std::begin(bucket.entry), std::end(bucket.entry), 0u);
  if (at == std::end(bucket.entry)) at = bucket.entry + tag % BRINK_XLAT_WAYS;
  Store(at, tag << 32 | slot);
}

void LineTable::Remove(uint64_t hash) {
  for (__u64& entry : buckets_[hash & (buckets_.size() - 1)].entry) {
    if (entry != 0 && entry >> 32 == hash >> 32) Store(&entry, 0);
  }
}

}  // namespace brink::walk
