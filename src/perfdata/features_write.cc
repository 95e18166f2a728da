#include <algorithm>
#include <cstring>

#include "perfdata/features.h"

namespace brink::perfdata {
namespace {

template <typename T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void AppendString(std::string& out, const std::string& text) {
  size_t padded = (text.size() + 1 + kNameAlign - 1) / kNameAlign * kNameAlign;
  Append(out, static_cast<uint32_t>(padded));
  out += text;
  out.append(padded - text.size(), '\0');
}

std::string OneString(const std::string& text) {
  std::string out;
  if (!text.empty()) AppendString(out, text);
  return out;
}

std::string EventDescSection(const Features& features) {
  std::string out;
  if (features.events.empty()) return out;
  Append(out, static_cast<uint32_t>(features.events.size()));
  Append(out, kAttrSizeWritten);
  for (const EventDesc& event : features.events) {
    EventAttr attr = event.attr;
    attr.size = kAttrSizeWritten;
    out.append(reinterpret_cast<const char*>(&attr), kAttrSizeWritten);
    Append(out, static_cast<uint32_t>(event.ids.size()));
    AppendString(out, event.name);
    for (uint64_t id : event.ids) Append(out, id);
  }
  return out;
}

std::string PmuMappings(const Features& features) {
  std::string out;
  if (features.pmu_mappings.empty()) return out;
  Append(out, static_cast<uint32_t>(features.pmu_mappings.size()));
  for (const auto& [type, name] : features.pmu_mappings) {
    Append(out, type);
    AppendString(out, name);
  }
  return out;
}

std::string Cmdline(const Features& features) {
  std::string out;
  if (features.cmdline.empty()) return out;
  Append(out, static_cast<uint32_t>(features.cmdline.size()));
  for (const std::string& word : features.cmdline) AppendString(out, word);
  return out;
}

std::string NrCpus(const Features& features) {
  std::string out;
  if (features.cpus_available == 0) return out;
  Append(out, features.cpus_available);
  Append(out, features.cpus_online);
  return out;
}

std::string ClockDataSection(const Features& features) {
  std::string out;
  if (!features.clock_data) return out;
  Append(out, uint32_t{1});
  Append(out, features.clock_data->clockid);
  Append(out, features.clock_data->wall_ns);
  Append(out, features.clock_data->clock_ns);
  return out;
}

std::string CompressedSection(const Features& features) {
  std::string out;
  if (!features.compressed) return out;
  const CompressionInfo& info = *features.compressed;
  for (uint32_t word : {info.version, info.type, info.level, info.ratio, info.mmap_len}) Append(out, word);
  return out;
}

std::string BuildIds(const Features& features) {
  std::string out;
  for (const BuildIdEntry& entry : features.build_ids) out += EncodeBuildId(entry, 0);
  return out;
}

}  // namespace

std::string EncodeBuildId(const BuildIdEntry& entry, uint32_t record_type) {
  std::string name = entry.filename.substr(0, 4095);
  size_t padded = (name.size() + 1 + kNameAlign - 1) / kNameAlign * kNameAlign;
  size_t id_size = std::min(entry.build_id.size(), kBuildIdMax);
  std::string out;
  Append(out, RecordHeader{record_type, static_cast<uint16_t>(entry.misc | kMiscBuildIdSize), static_cast<uint16_t>(36 + padded)});
  Append(out, entry.pid);
  out.append(entry.build_id, 0, id_size);
  out.append(kBuildIdMax - id_size, '\0');
  Append(out, static_cast<uint32_t>(id_size));  // size byte and three of padding, on a little-endian host
  out += name;
  out.append(padded - name.size(), '\0');
  return out;
}

std::string EncodeFeature(Feature feature, const Features& features) {
  std::string out;
  switch (feature) {
    case kFeatureBuildId: return BuildIds(features);
    case kFeatureHostname: return OneString(features.hostname);
    case kFeatureOsRelease: return OneString(features.os_release);
    case kFeatureVersion: return OneString(features.version);
    case kFeatureArch: return OneString(features.arch);
    case kFeatureNrCpus: return NrCpus(features);
    case kFeatureCpuDesc: return OneString(features.cpu_desc);
    case kFeatureCpuid: return OneString(features.cpuid);
    case kFeatureTotalMem:
      if (features.total_mem_kb) Append(out, features.total_mem_kb);
      return out;
    case kFeatureCmdline: return Cmdline(features);
    case kFeatureEventDesc: return EventDescSection(features);
    case kFeaturePmuMappings: return PmuMappings(features);
    case kFeatureSampleTime:
      if (features.sample_time) {
        Append(out, features.sample_time->first);
        Append(out, features.sample_time->second);
      }
      return out;
    case kFeatureClockid:
      if (features.clockid_resolution_ns) Append(out, *features.clockid_resolution_ns);
      return out;
    case kFeatureClockData: return ClockDataSection(features);
    case kFeatureCompressed: return CompressedSection(features);
    default: return out;
  }
}

bool HasFeature(Feature feature, const Features& features) {
  if (feature == kFeatureBranchStack) return features.branch_stack;
  return !EncodeFeature(feature, features).empty();
}

std::vector<Feature> WritableFeatures() {
  return {kFeatureBuildId,   kFeatureHostname, kFeatureOsRelease, kFeatureVersion,     kFeatureArch,       kFeatureNrCpus,
          kFeatureCpuDesc,   kFeatureCpuid,    kFeatureTotalMem,  kFeatureCmdline,     kFeatureEventDesc,  kFeatureBranchStack,
          kFeaturePmuMappings, kFeatureSampleTime, kFeatureClockid, kFeatureCompressed, kFeatureClockData};
}

FeatureSections EncodeFeatureSections(const Features& features, uint64_t data_end) {
  std::vector<std::pair<Feature, std::string>> sections;
  for (Feature feature : WritableFeatures()) {
    if (HasFeature(feature, features)) sections.emplace_back(feature, EncodeFeature(feature, features));
  }
  FeatureSections out;
  std::string payload;
  const uint64_t at = data_end + sections.size() * sizeof(FileSection);
  for (const auto& [feature, text] : sections) {
    Append(out.bytes, FileSection{at + payload.size(), text.size()});
    payload += text;
    payload.append(-payload.size() & 7, '\0');
    out.bits[feature / 64] |= 1ull << (feature % 64);
  }
  out.bytes += payload;
  return out;
}

}  // namespace brink::perfdata
