// Decoders of feature payloads (features.h has the types).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "perfdata/features.h"

namespace brink::perfdata {

// Adds what the payload says to `features`; unknown and malformed ones change nothing or a part.
void DecodeFeature(uint32_t feature, std::span<std::byte> bytes, bool swap, Features* features);
// `body` is what follows the 8-byte header of an entry, in a section or in a BUILD_ID record.
std::optional<BuildIdEntry> DecodeBuildId(uint16_t misc, std::span<std::byte> body, bool swap);

}  // namespace brink::perfdata
