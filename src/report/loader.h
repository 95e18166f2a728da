// From a recording to a Program.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "brbe/stream.h"
#include "perfdata/reader.h"
#include "report/program.h"

namespace brink::report {

struct LoadOptions {
  std::vector<int32_t> pids, tids;    // empty: all
  std::vector<std::string> comms;     // exact names
  std::vector<std::string> where;     // expressions of the filter language, ANDed
  std::optional<brbe::StreamOptions> brbe_model;  // stacks go through it before the filter
  symbol::SymbolOptions symbols;
  bool loops = false;                 // find them
  size_t path_length = 0;             // 0: no paths
  bool flame = false;                 // tree of functions along the stacks
  bool classify = false;              // kinds from the code where the recording is silent, before anything is counted
  // A further observer of the stacks, which the caller owns; asked for once, before the first sample.
  std::function<StackObserver*(Program&)> observe;
  bool observe_only = false;          // the observer gets the samples (not the stacks), and nothing is counted here
  uint64_t time_from = 0, time_to = UINT64_MAX;
};

// Reads the whole recording; memory depends on the number of different branches, not on its size. Damage is in
// facts.problems; an error comes back only when nothing could be read. An aggregate file (docs/aggregate.md) gives the
// same Program without what needs whole stacks; filters on samples are refused there (INVALID_ARGUMENT).
StatusOr<std::unique_ptr<Program>> LoadProgram(const std::string& path, const LoadOptions& options);
// The same from an open recording.
StatusOr<std::unique_ptr<Program>> LoadProgram(std::unique_ptr<perfdata::Input> input, const LoadOptions& options);

}  // namespace brink::report
