// Feature sections of a file and FEATURE records of a stream. A section that does not parse is left out; it never
// spoils the rest.
#include <cstring>

#include "perfdata/attr.h"
#include "perfdata/bytes.h"
#include "perfdata/features_read.h"

namespace brink::perfdata {
namespace {

std::string String(Cursor* cursor) {
  uint32_t size = cursor->U32();
  return std::string(cursor->Text(size));
}

void ReadCmdline(Cursor* cursor, Features* features) {
  uint32_t count = cursor->U32();
  std::vector<std::string> words;
  for (uint32_t i = 0; i < count && cursor->ok(); ++i) words.push_back(String(cursor));
  if (cursor->ok()) features->cmdline = std::move(words);
}

void ReadEventDesc(Cursor* cursor, Features* features) {
  uint32_t count = cursor->U32(), attr_size = cursor->U32();
  std::vector<EventDesc> events;
  for (uint32_t i = 0; i < count && cursor->ok(); ++i) {
    EventDesc event;
    auto attr = DecodeAttr(cursor->Bytes(attr_size), cursor->swap());
    uint32_t ids = cursor->U32();
    event.name = String(cursor);
    if (!attr || ids > cursor->left() / 8) return;
    event.attr = *attr;
    for (uint32_t k = 0; k < ids; ++k) event.ids.push_back(cursor->U64());
    events.push_back(std::move(event));
  }
  if (cursor->ok()) features->events = std::move(events);
}

void ReadPmuMappings(Cursor* cursor, Features* features) {
  uint32_t count = cursor->U32();
  std::vector<std::pair<uint32_t, std::string>> pmus;
  for (uint32_t i = 0; i < count && cursor->ok(); ++i) {
    uint32_t type = cursor->U32();
    pmus.emplace_back(type, String(cursor));
  }
  if (cursor->ok()) features->pmu_mappings = std::move(pmus);
}

void ReadBuildIds(Cursor* cursor, Features* features) {
  while (cursor->left() >= sizeof(RecordHeader)) {
    cursor->U32();
    uint16_t misc = cursor->U16(), size = cursor->U16();
    if (size < sizeof(RecordHeader) || size - sizeof(RecordHeader) > cursor->left()) return;
    std::span<std::byte> body = cursor->Bytes(size - sizeof(RecordHeader));
    if (auto entry = DecodeBuildId(misc, body, cursor->swap())) features->build_ids.push_back(*std::move(entry));
  }
}

void ReadCompressed(Cursor* cursor, Features* features) {
  CompressionInfo info;
  for (uint32_t* word : {&info.version, &info.type, &info.level, &info.ratio, &info.mmap_len}) *word = cursor->U32();
  if (cursor->ok()) features->compressed = info;
}

void ReadClockData(Cursor* cursor, Features* features) {
  ClockData data;
  if (cursor->U32() != 1) return;  // version
  data.clockid = cursor->U32();
  data.wall_ns = cursor->U64();
  data.clock_ns = cursor->U64();
  if (cursor->ok()) features->clock_data = data;
}

}  // namespace

std::optional<BuildIdEntry> DecodeBuildId(uint16_t misc, std::span<std::byte> body, bool swap) {
  Cursor cursor(body.data(), body.size(), swap);
  BuildIdEntry entry;
  entry.misc = static_cast<uint16_t>(misc & ~kMiscBuildIdSize);
  entry.pid = static_cast<int32_t>(cursor.U32());
  std::span<const std::byte> id = cursor.Bytes(kBuildIdMax);
  uint8_t size = cursor.U8();
  cursor.Skip(3);
  entry.filename = std::string(cursor.Text(cursor.left()));
  if (!cursor.ok()) return std::nullopt;
  size_t length = misc & kMiscBuildIdSize && size <= kBuildIdMax ? size : kBuildIdMax;
  entry.build_id.assign(reinterpret_cast<const char*>(id.data()), length);
  // Before sizes were written, shorter ids were padded with zeros to twenty bytes.
  if (!(misc & kMiscBuildIdSize)) {
    while (entry.build_id.size() > 4 && entry.build_id.substr(entry.build_id.size() - 4) == std::string(4, '\0')) {
      entry.build_id.resize(entry.build_id.size() - 4);
    }
  }
  return entry;
}

void DecodeFeature(uint32_t feature, std::span<std::byte> bytes, bool swap, Features* features) {
  Cursor cursor(bytes.data(), bytes.size(), swap);
  auto assign = [&](std::string* out) {
    std::string text = String(&cursor);
    if (cursor.ok()) *out = std::move(text);
  };
  switch (feature) {
    case kFeatureBuildId: return ReadBuildIds(&cursor, features);
    case kFeatureHostname: return assign(&features->hostname);
    case kFeatureOsRelease: return assign(&features->os_release);
    case kFeatureVersion: return assign(&features->version);
    case kFeatureArch: return assign(&features->arch);
    case kFeatureCpuDesc: return assign(&features->cpu_desc);
    case kFeatureCpuid: return assign(&features->cpuid);
    case kFeatureNrCpus:
      features->cpus_available = cursor.U32();
      features->cpus_online = cursor.U32();
      return;
    case kFeatureTotalMem: features->total_mem_kb = cursor.U64(); return;
    case kFeatureCmdline: return ReadCmdline(&cursor, features);
    case kFeatureEventDesc: return ReadEventDesc(&cursor, features);
    case kFeatureBranchStack: features->branch_stack = true; return;
    case kFeaturePmuMappings: return ReadPmuMappings(&cursor, features);
    case kFeatureSampleTime: {
      uint64_t first = cursor.U64(), last = cursor.U64();
      if (cursor.ok()) features->sample_time = {first, last};
      return;
    }
    case kFeatureClockid: {
      uint64_t resolution = cursor.U64();
      if (cursor.ok()) features->clockid_resolution_ns = resolution;
      return;
    }
    case kFeatureClockData: return ReadClockData(&cursor, features);
    case kFeatureCompressed: return ReadCompressed(&cursor, features);
    default: return;
  }
}

}  // namespace brink::perfdata
