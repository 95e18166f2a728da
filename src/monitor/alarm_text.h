// Alarms for people and for machines.
#pragma once

#include <string>

#include "base/status.h"
#include "monitor/alarm.h"

namespace brink::cfi {

struct TextOptions {
  bool colour = false;
  uint64_t realtime_offset_ns = 0;  // added to CLOCK_MONOTONIC
  std::string host;
};

// One line, schema brink.cfi.alarm.v1 (docs/schema/cfi_alarm.json).
std::string AlarmJson(const Alarm& alarm, const TextOptions& options);
// Several lines: what, who, where, and the path with its broken edge.
std::string AlarmText(const Alarm& alarm, const TextOptions& options);
// One line: OCSF 1.1.0 detection_finding (class 2004).
std::string AlarmOcsf(const Alarm& alarm, const TextOptions& options);
// One line in the form of Falco's JSON output.
std::string AlarmFalco(const Alarm& alarm, const TextOptions& options);
// One short line for syslog.
std::string AlarmLine(const Alarm& alarm);

// ATT&CK techniques of a policy's violation, by the data file src/monitor/mitre.inc.
struct Technique {
  const char* id;
  const char* name;
  const char* tactic_id;
  const char* tactic;
};
std::vector<Technique> TechniquesOf(const Alarm& alarm);
std::string_view MitreVersion();

std::string_view PointName(uint32_t point);

}  // namespace brink::cfi
