// Feature sections: what a recording says about its machine, command and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "perfdata/format.h"

namespace brink::perfdata {

struct BuildIdEntry {
  int32_t pid = -1;             // -1: every process of the host
  uint16_t misc = kMiscUser;    // cpu mode: kMiscKernel for [kernel.kallsyms] and modules
  std::string build_id;         // raw bytes, 1 to 20
  std::string filename;
  friend bool operator==(const BuildIdEntry&, const BuildIdEntry&) = default;
};

struct EventDesc {
  EventAttr attr;
  std::string name;
  std::vector<uint64_t> ids;
};

struct ClockData {
  uint32_t clockid = 0;
  uint64_t wall_ns = 0;   // since the epoch
  uint64_t clock_ns = 0;  // the same instant on `clockid`
};

struct CompressionInfo {
  uint32_t version = 1;
  uint32_t type = 1;  // zstd
  uint32_t level = 0;
  uint32_t ratio = 0;
  uint32_t mmap_len = 0;  // no compressed record expands to more
};

// Empty strings and unset values are left out of a file, and mean "the file does not say" when read.
struct Features {
  std::string hostname, os_release, version, arch, cpu_desc, cpuid;
  uint32_t cpus_available = 0, cpus_online = 0;
  uint64_t total_mem_kb = 0;
  std::vector<std::string> cmdline;
  std::vector<EventDesc> events;
  std::vector<BuildIdEntry> build_ids;
  bool branch_stack = false;
  std::vector<std::pair<uint32_t, std::string>> pmu_mappings;
  std::optional<std::pair<uint64_t, uint64_t>> sample_time;  // first, last
  std::optional<uint64_t> clockid_resolution_ns;
  std::optional<ClockData> clock_data;
  std::optional<CompressionInfo> compressed;
};

// What this host can say: names, CPUs, memory, PMUs. `cmdline` and the rest are the caller's. Never fails; what cannot
// be read stays empty.
Features CollectHostFeatures();

// The payload of one section, exactly as in a file (and after the id in a pipe's FEATURE record); "" when `features`
// has nothing for it. BRANCH_STACK has an empty payload and is present by its bit alone: see HasFeature.
std::string EncodeFeature(Feature feature, const Features& features);
bool HasFeature(Feature feature, const Features& features);
// Those that this module writes, in the order of their bits.
std::vector<Feature> WritableFeatures();

// All sections as they lie behind the data that ends at `data_end`: first the table of places, then the payloads.
struct FeatureSections {
  std::string bytes;
  uint64_t bits[4] = {};  // for FileHeader::features
};
FeatureSections EncodeFeatureSections(const Features& features, uint64_t data_end);

// One entry of the BUILD_ID section; `record_type` is 0 in a file, kRecordHeaderBuildId in a pipe.
std::string EncodeBuildId(const BuildIdEntry& entry, uint32_t record_type);

}  // namespace brink::perfdata
