#include "snap/group_records.h"

#include <cstring>

#include "pipeline/item.h"

namespace brink::snap {

std::vector<std::byte> GroupRecords::AtFirstSight(uint64_t id, std::string_view path) {
  if (path.empty() || path.size() > UINT16_MAX / 2 || seen_.size() >= kMost || !seen_.insert(id).second) return {};
  struct {
    perf_event_header header;
    uint64_t id;
  } head = {};
  // The path ends with a zero, at a multiple of eight bytes.
  const size_t size = sizeof(head) + (path.size() + 8) / 8 * 8;
  head.header = {.type = PERF_RECORD_CGROUP, .misc = 0, .size = static_cast<uint16_t>(size + sizeof(SideBandId))};
  head.id = id;
  std::vector<std::byte> record(size);
  std::memcpy(record.data(), &head, sizeof(head));
  std::memcpy(record.data() + sizeof(head), path.data(), path.size());
  return record;
}

}  // namespace brink::snap
