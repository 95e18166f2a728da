// The feature set as text for people and as JSON for programs (docs/schema/doctor.json).
#pragma once

#include <string>

#include "probe/feature.h"
#include "probe/tracepoints.h"

namespace brink {

// What a capture burns at one kind of hook (doctor --calibrate).
struct BurntEntries {
  std::string hook;      // "raw_tp"
  std::string failed;    // "" or why it could not be measured
  int least = 0, most = 0, depth = 0, runs = 0;
  std::vector<std::string> functions;
};

struct DoctorReport {
  const FeatureSet& features;
  std::string version;       // of brink
  uint64_t took_ns = 0;
  uint64_t realtime_ns = 0;  // of the probing
  uint64_t monotonic_ns = 0;
  std::vector<BurntEntries> burnt;  // empty: not measured
  std::vector<TracepointFinding> tracepoints;  // of brink latency
};

// One line a feature by group, off ones with reason and remedy; then rights and the source that auto takes.
std::string DoctorText(const DoctorReport& report, bool verbose);
// One JSON object on one line.
std::string DoctorJson(const DoctorReport& report);

// What a capability would add for a user without root.
struct CapabilityUse {
  int capability;
  const char* gives;
  bool needed;  // brink does not work without it (or root)
};
std::span<const CapabilityUse> CapabilityUses();

}  // namespace brink
