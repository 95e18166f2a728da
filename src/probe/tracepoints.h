// The tracepoints that brink latency --blame hangs on, each tried by attaching an empty program to it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probe/feature.h"

namespace brink {

struct TracepointUse {
  std::string_view name;
  std::string_view gives;  // what a report has from it
};
// All that the programs have, in the order of a wake-up's life; some exist on one architecture or on newer kernels only.
std::span<const TracepointUse> LatencyTracepoints();

struct TracepointFinding {
  TracepointUse use;
  Finding finding;
};
// Attaches and detaches one after the other; some milliseconds together. Where typed tracepoints do not work at all, all
// are off because of that.
std::vector<TracepointFinding> ProbeTracepoints(const FeatureSet& features, std::span<const TracepointUse> uses);

}  // namespace brink
