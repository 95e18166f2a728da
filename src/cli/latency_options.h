// The words of `brink latency`: cyclictest's options under their own letters, then brink's.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "latency/config.h"
#include "latency/trace.h"

namespace brink::cli {

// What the command line asks for beyond the measurement itself.
struct LatencyOutputs {
  std::string save, plot, folded;
  bool old_histogram = false;  // 2.4's form of the histogram
  bool blame = false;
  int64_t blame_above_ns = 100'000;
  uint64_t heartbeat_ns = 1'000'000;
  int64_t max_spikes = 10;     // reports printed
  std::vector<std::string> on_threshold;
  latency::TraceRequest trace;
};

// Appends the options; they write to `request` and `outputs`, which must outlive the table.
void AddLatencyOptions(latency::Request* request, LatencyOutputs* outputs, std::vector<Option>* options);

}  // namespace brink::cli
