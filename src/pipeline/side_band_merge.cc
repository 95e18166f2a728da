#include "pipeline/side_band_merge.h"

#include <algorithm>
#include <cstring>

#include "pipeline/item.h"

namespace brink {

void SideBandMerge::Add(std::span<const std::byte> record) {
  SideBandId id = {};
  if (record.size() >= sizeof(id)) std::memcpy(&id, record.data() + record.size() - sizeof(id), sizeof(id));
  held_.push_back({id.time_ns, bytes_.size(), record.size()});
  bytes_.insert(bytes_.end(), record.begin(), record.end());
}

void SideBandMerge::Sort() {
  std::stable_sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.time_ns < b.time_ns; });
}

void SideBandMerge::Drop(size_t count) {
  if (count == held_.size()) {
    held_.clear();
    bytes_.clear();
    return;
  }
  if (count == 0) return;
  std::vector<std::byte> rest;
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  for (Held& held : held_) {
    size_t offset = rest.size();
    rest.insert(rest.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(held.offset), bytes_.begin() + static_cast<std::ptrdiff_t>(held.offset + held.size));
    held.offset = offset;
  }
  bytes_ = std::move(rest);
}

}  // namespace brink
