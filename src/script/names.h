// Words for the numbers of brink's own notes (docs: the same in text and JSON).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brink::script {

// enum brink_source, brink_direction; "unknown" for numbers of a later version. Stop reasons: base/stop.h.
std::string_view SourceName(uint8_t source);
std::string_view DirectionName(uint8_t direction);
// "user", "kernel", "hypervisor", or "" where it is not known.
std::string_view PrivName(uint32_t priv);

// "2026-01-31T12:00:00.123456789Z".
std::string Rfc3339(uint64_t ns_since_epoch);

}  // namespace brink::script
