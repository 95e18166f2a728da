#include "pipeline/side_band_merge.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "pipeline/item.h"

namespace brink {

namespace {

// A fault of the kernel (seen on 6.18; 6.1 and 6.12 have the same code): perf_event_ksymbol_output and perf_event_bpf_output
// add the trailer's size to the one header for each event in turn and never take it back. So the second event's record is a
// trailer longer than what was written, the third's two, and what its end holds is left over from older records. The real
// trailer stands where the record's own content ends.
size_t WrittenSize(std::span<const std::byte> record) {
  constexpr size_t kFixed = 24;  // of both: header, address or type and id, length or tag
  perf_event_header header;
  if (record.size() < kFixed + sizeof(SideBandId)) return record.size();
  std::memcpy(&header, record.data(), sizeof(header));
  size_t size = record.size();
  if (header.type == PERF_RECORD_BPF_EVENT) size = kFixed + sizeof(SideBandId);
  if (header.type == PERF_RECORD_KSYMBOL) {
    const char* name = reinterpret_cast<const char*>(record.data() + kFixed);
    size = kFixed + ((strnlen(name, record.size() - kFixed) + 8) & ~size_t{7}) + sizeof(SideBandId);
  }
  return std::min(size, record.size());
}

}  // namespace

void SideBandMerge::Add(std::span<const std::byte> whole) {
  const std::span<const std::byte> record = whole.first(WrittenSize(whole));
  SideBandId id = {};
  if (record.size() >= sizeof(id)) std::memcpy(&id, record.data() + record.size() - sizeof(id), sizeof(id));
  held_.push_back({id.time_ns, bytes_.size(), record.size()});
  bytes_.insert(bytes_.end(), record.begin(), record.end());
  if (record.size() == whole.size()) return;
  const auto size = static_cast<uint16_t>(record.size());
  std::memcpy(bytes_.data() + held_.back().offset + offsetof(perf_event_header, size), &size, sizeof(size));
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
