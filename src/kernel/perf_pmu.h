// PMUs as sysfs describes them: type number, format of the config words, named events.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kernel/perf_parse.h"

namespace brink {

// "PMU" and the text between its slashes, into type and config words of `event`. NotFound where the PMU or a term is
// not known; the message lists what the PMU has.
Status ParsePmuTerms(const KernelRoots& roots, std::string_view pmu, std::string_view terms, EventSpec* event);
bool PmuExists(const KernelRoots& roots, std::string_view pmu);
bool PmuHasEvent(const KernelRoots& roots, std::string_view pmu, std::string_view event);
// File under the PMU's folder ("caps/branches"), blanks trimmed.
StatusOr<std::string> ReadPmuFile(const KernelRoots& roots, std::string_view pmu, std::string_view file);

// Puts `value` into the bits that a sysfs format line names: "config:0-7,32-35", "config1:1".
// InvalidArgument where the value has more bits than the field. Pure.
struct ConfigWords {
  uint64_t config = 0, config1 = 0, config2 = 0;
};
Status ApplyFormat(std::string_view format, uint64_t value, ConfigWords* words);

}  // namespace brink
