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
  uint64_t time_from = 0, time_to = UINT64_MAX;
};

// Reads the whole recording; memory depends on the number of different branches, not on its size. Damage is in
// facts.problems; an error comes back only when nothing could be read.
StatusOr<std::unique_ptr<Program>> LoadProgram(const std::string& path, const LoadOptions& options);

}  // namespace brink::report
