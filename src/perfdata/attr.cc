#include "perfdata/attr.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <absl/strings/str_format.h>

namespace brink::perfdata {
namespace {

size_t CountFields(uint64_t sample_type, uint64_t fields) { return 8 * static_cast<size_t>(std::popcount(sample_type & fields)); }

std::string CacheEventName(uint64_t config) {
  static constexpr const char* kCaches[] = {"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"};
  static constexpr const char* kOps[][2] = {{"loads", "load"}, {"stores", "store"}, {"prefetches", "prefetch"}};
  uint64_t cache = config & 0xff, op = config >> 8 & 0xff, result = config >> 16 & 0xff;
  if (cache >= std::size(kCaches) || op >= std::size(kOps) || result > 1) return "invalid-cache";
  if (result == 1) return absl::StrFormat("%s-%s-misses", kCaches[cache], kOps[op][1]);
  return absl::StrFormat("%s-%s", kCaches[cache], kOps[op][0]);
}

std::string BaseName(const EventAttr& attr) {
  static constexpr const char* kHardware[] = {"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
                                              "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"};
  static constexpr const char* kSoftware[] = {"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations",
                                              "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy",
                                              "bpf-output", "cgroup-switches"};
  uint64_t config = attr.type == kTypeHardware ? attr.config & 0xffffffff : attr.config;  // above: the PMU of a hybrid CPU
  switch (attr.type) {
    case kTypeHardware: return config < std::size(kHardware) ? kHardware[config] : "unknown-hardware";
    case kTypeSoftware: return config < std::size(kSoftware) ? kSoftware[config] : "unknown-software";
    case kTypeHwCache: return CacheEventName(attr.config & 0xffffffff);
    case kTypeTracepoint: return "unknown tracepoint";
    case kTypeBreakpoint: return absl::StrFormat("mem:0x%x:%s%s%s", attr.config1, attr.bp_type & 1 ? "r" : "", attr.bp_type & 2 ? "w" : "",
                                                 attr.bp_type & 4 ? "x" : "");
    case kTypeRaw: return absl::StrFormat("raw 0x%x", attr.config);
    default: return absl::StrFormat("unknown attr type: %d", attr.type);
  }
}

// perf's modifiers: which privileges are counted where some are left out, and the precision.
std::string Modifiers(uint64_t flags) {
  std::string out;
  bool exclude_guest_default = false;
  if (flags & (kAttrExcludeKernel | kAttrExcludeUser | kAttrExcludeHv)) {
    if (!(flags & kAttrExcludeKernel)) out += 'k';
    if (!(flags & kAttrExcludeUser)) out += 'u';
    if (!(flags & kAttrExcludeHv)) out += 'h';
    exclude_guest_default = true;
  }
  if (uint64_t precise = flags >> 15 & 3; precise != 0) {
    out.append(precise, 'p');
    exclude_guest_default = true;
  }
  if (flags & kAttrExcludeHost || ((flags & kAttrExcludeGuest) != 0) == exclude_guest_default) {
    if (!(flags & kAttrExcludeHost)) out += 'H';
    if (!(flags & kAttrExcludeGuest)) out += 'G';
  }
  return out.empty() ? out : ":" + out;
}

}  // namespace

std::optional<EventAttr> DecodeAttr(std::span<const std::byte> bytes, bool swap) {
  if (bytes.size() < kAttrSizeVer0) return std::nullopt;
  EventAttr attr;
  std::memcpy(&attr, bytes.data(), std::min(bytes.size(), sizeof attr));
  if (!swap) return attr;
  for (uint32_t* word : {&attr.type, &attr.size, &attr.wakeup_events, &attr.bp_type, &attr.sample_stack_user, &attr.aux_watermark,
                         &attr.aux_sample_size}) {
    *word = Swap32(*word);
  }
  for (uint64_t* word : {&attr.config, &attr.sample_period, &attr.sample_type, &attr.read_format, &attr.config1, &attr.config2,
                         &attr.branch_sample_type, &attr.sample_regs_user, &attr.sample_regs_intr, &attr.sig_data, &attr.config3}) {
    *word = Swap64(*word);
  }
  attr.flags = AttrFlagsFromBigEndian(Swap64(attr.flags));
  attr.clockid = static_cast<int32_t>(Swap32(static_cast<uint32_t>(attr.clockid)));
  attr.sample_max_stack = Swap16(attr.sample_max_stack);
  return attr;
}

std::string DefaultEventName(const EventAttr& attr) {
  bool plain = attr.type == kTypeTracepoint || attr.type > kTypeBreakpoint;
  return BaseName(attr) + (plain ? "" : Modifiers(attr.flags));
}

RecordLayout LayoutOf(const EventAttr& attr) {
  RecordLayout layout;
  const uint64_t type = attr.sample_type;
  layout.id_all = attr.flags & kAttrSampleIdAll;
  if (layout.id_all) {
    layout.id_size = CountFields(type, kSampleTid | kSampleTime | kSampleId | kSampleStreamId | kSampleCpu | kSampleIdentifier);
  }
  if (type & kSampleTime) {
    layout.sample_time = CountFields(type, kSampleIdentifier | kSampleIp | kSampleTid);
    if (layout.id_all) layout.trailer_time = layout.id_size - CountFields(type, kSampleTid);
  }
  return layout;
}

size_t EventTable::Add(EventInfo event) {
  size_t index = events_.size();
  if (event.name.empty()) event.name = DefaultEventName(event.attr);
  event.notes = UnpackEventNotes(event.attr.sig_data);
  for (uint64_t id : event.ids) by_id_[id] = static_cast<int>(index);
  Relate(event.attr);
  layouts_.push_back(LayoutOf(event.attr));
  events_.push_back(std::move(event));
  return index;
}

void EventTable::AddId(size_t event, uint64_t id) {
  if (by_id_.emplace(id, static_cast<int>(event)).second) events_[event].ids.push_back(id);
}

void EventTable::Rename(uint64_t id, std::string name) {
  auto found = by_id_.find(id);
  if (found != by_id_.end()) events_[static_cast<size_t>(found->second)].name = std::move(name);
}

// Keeps the place of the id in records while every event has it there.
void EventTable::Relate(const EventAttr& attr) {
  const uint64_t type = attr.sample_type;
  size_t sample = SIZE_MAX, trailer = SIZE_MAX;
  if (type & kSampleIdentifier) {
    sample = 0;
    trailer = 8;
  } else if (type & kSampleId) {
    sample = CountFields(type, kSampleIp | kSampleTid | kSampleTime | kSampleAddr);
    trailer = 8 + CountFields(type, kSampleStreamId | kSampleCpu);
  }
  bool first = events_.empty();
  sample_id_ = first || sample == sample_id_ ? sample : SIZE_MAX;
  trailer_id_ = first || trailer == trailer_id_ ? trailer : SIZE_MAX;
}

int EventTable::Find(uint32_t type, std::span<const std::byte> body, bool swap) const {
  if (events_.size() <= 1) return static_cast<int>(events_.size()) - 1;
  size_t at = SIZE_MAX;
  if (type == kRecordSample) {
    at = sample_id_;
  } else if (trailer_id_ != SIZE_MAX && layouts_[0].id_all && body.size() >= trailer_id_) {
    at = body.size() - trailer_id_;
  }
  if (at == SIZE_MAX) return 0;
  if (body.size() < 8 || at > body.size() - 8) return type == kRecordSample ? -1 : 0;
  uint64_t id;
  std::memcpy(&id, body.data() + at, sizeof id);
  if (swap) id = Swap64(id);
  auto found = by_id_.find(id);
  if (found != by_id_.end()) return found->second;
  // Synthesised records have no id, and some recordings list none at all.
  return type == kRecordSample && id != 0 && !by_id_.empty() ? -1 : 0;
}

}  // namespace brink::perfdata
