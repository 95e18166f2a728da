// Event attributes of any size and byte order, and how records are told apart by them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "perfdata/bytes.h"
#include "perfdata/format.h"
#include "perfdata/notes.h"

namespace brink::perfdata {

// The attribute in `bytes`, which may be shorter or longer than the newest known one. Nothing below 64 bytes.
std::optional<EventAttr> DecodeAttr(std::span<const std::byte> bytes, bool swap);

// The name that perf gives to an event without one: "cycles:u", "cpu-clock", "raw 0x1c4".
std::string DefaultEventName(const EventAttr& attr);

struct EventInfo {
  EventAttr attr;
  std::string name;
  std::vector<uint64_t> ids;
  std::optional<EventNotes> notes;  // of recordings that brink made
};

// Where the fields lie that are needed before a record is decoded.
struct RecordLayout {
  bool id_all = false;
  size_t id_size = 0;             // of the trailer of records other than samples
  size_t sample_time = SIZE_MAX;  // offset behind the header; SIZE_MAX: there is none
  size_t trailer_time = SIZE_MAX; // from the end of the record back
};
RecordLayout LayoutOf(const EventAttr& attr);

// The events of a recording, and the lookup of a record's event by its id.
class EventTable {
 public:
  // Ids may come with the event or later.
  size_t Add(EventInfo event);
  void AddId(size_t event, uint64_t id);
  // Names the event that has `id` (pipe mode).
  void Rename(uint64_t id, std::string name);

  const std::vector<EventInfo>& events() const { return events_; }
  std::vector<EventInfo>& events() { return events_; }
  const RecordLayout& layout(int event) const { return layouts_[static_cast<size_t>(event)]; }

  // Event of a kernel record; `body` is what follows the header. -1: there are no events, or a sample has an unknown id.
  int Find(uint32_t type, std::span<const std::byte> body, bool swap) const;

 private:
  void Relate(const EventAttr& attr);

  std::vector<EventInfo> events_;
  std::vector<RecordLayout> layouts_;
  absl::flat_hash_map<uint64_t, int> by_id_;
  // Place of the id: from the start of a sample, from the end of others. SIZE_MAX: no common place.
  size_t sample_id_ = SIZE_MAX, trailer_id_ = SIZE_MAX;
};

}  // namespace brink::perfdata
