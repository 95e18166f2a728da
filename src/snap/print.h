// A capture as text for people and as one line of JSON (docs/schema/snap.schema.json).
#pragma once

#include <cstdint>
#include <string>

#include "snap/capture.h"

namespace brink::snap {

struct PrintOptions {
  bool colour = false;
  bool registers = false;
  size_t most_branches = 32;
  uint64_t realtime_offset_ns = 0;  // CLOCK_REALTIME minus CLOCK_MONOTONIC
};

// Several lines, the last one empty.
std::string CaptureText(const Capture& capture, const PrintOptions& options);
// One object, schema "brink.snap.v1", without a newline.
std::string CaptureJson(const Capture& capture, const PrintOptions& options);

}  // namespace brink::snap
