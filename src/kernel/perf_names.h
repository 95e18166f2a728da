// Tables of the event names that are numbers in perf's ABI (no sysfs needed).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brink {

struct NamedEvent {
  uint32_t type;
  uint64_t config;
};

// Generic hardware, software and cache names ("cycles", "cpu-clock", "L1-dcache-load-misses").
std::optional<NamedEvent> FindGenericEvent(std::string_view name);
// All of them, for "did you mean".
std::vector<std::string> GenericEventNames();

}  // namespace brink
