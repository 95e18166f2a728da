// What walks find of lifted pages: the table of lines, and how pages leave it.
#include <algorithm>
#include <cstring>

#include "source/lift_service.h"
#include "walk/hash.h"

namespace brink {
namespace {

constexpr uint32_t kLinesPerPage = BRINK_WALK_PAGE_SIZE / BRINK_WALK_CODE_LINE;

uint64_t LineHash(const uint8_t* line, uint32_t index) {
  __u64 words[BRINK_WALK_CODE_LINE / 8];
  std::memcpy(words, line, sizeof words);
  return brink_walk_line_hash(words, index);
}

}  // namespace

// Makes every line that has lifted instructions findable by its bytes. Lines of equal content belong to whoever came
// last: the walker recovers from a wrong guess at the next line.
void LiftService::Publish(uint32_t slot) {
  Page& known = slots_[slot];
  uint64_t hashes[kLinesPerPage];
  uint32_t lines[kLinesPerPage];
  size_t count = 0;
  for (uint32_t line = 0; line < kLinesPerPage; ++line) {
    if (known.lines >> line & 1) continue;
    const std::span<const uint8_t> code = cache_.LineCode(slot, line);
    if (code.empty()) continue;
    hashes[count] = LineHash(code.data(), line);
    lines[count++] = line;
  }
  if (count == 0) return;
  tables_.PutLines({hashes, count}, slot);
  for (size_t i = 0; i < count; ++i) {
    line_owner_[hashes[i]] = slot;
    known.lines |= uint64_t{1} << lines[i];
  }
}

// Frees a quarter of the pages in one batch: unlink all, one grace period, then reuse. The oldest go, but those that
// walks used since the last time get a second chance.
size_t LiftService::UnlinkOldest() {
  size_t count = std::max<size_t>(1, age_.size() / 4);
  std::vector<uint32_t> victims;
  for (size_t spared = 0, most = age_.size(); count > 0 && !age_.empty();) {
    uint32_t slot = age_.front();
    age_.pop_front();
    if (spared < most && __atomic_exchange_n(&pages_[slot].used, 0u, __ATOMIC_RELAXED)) {
      age_.push_back(slot);
      ++spared;
      continue;
    }
    --count;
    Page& page = slots_[slot];
    for (uint32_t line = 0; line < kLinesPerPage; ++line) {
      if (!(page.lines >> line & 1)) continue;
      uint64_t hash = LineHash(cache_.LineCode(slot, line).data(), line);
      auto owner = line_owner_.find(hash);
      if (owner == line_owner_.end() || owner->second != slot) continue;
      tables_.RemoveLine(hash);
      line_owner_.erase(owner);
    }
    if (auto it = by_content_.find(page.content); it != by_content_.end() && it->second == slot) by_content_.erase(it);
    page = {};
    victims.push_back(slot);
  }
  cache_.Unlink(victims);
  since_eviction_ = 0;
  return victims.size();
}

void LiftService::Evict() {
  size_t gone;
  {
    PriorityMutexLock lock(cache_mutex_);
    gone = UnlinkOldest();
  }
  // Else what was unlinked waits for the next batch.
  if (tables_.WaitForWalks()) {
    PriorityMutexLock lock(cache_mutex_);
    cache_.Reclaim();
  }
  MutexLock lock(mutex_);
  stats_.evicted += gone;
}

}  // namespace brink
