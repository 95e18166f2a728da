// From a recording to a Program: all at once, or as it comes.
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

// The same bit by bit, for recordings that are still being made (streams). Not thread-safe as a whole: Read may run while
// another thread looks at the program, everything else may not.
class ProgramLoader {
 public:
  // `program` and what the options refer to outlive the loader.
  static StatusOr<std::unique_ptr<ProgramLoader>> Open(std::unique_ptr<perfdata::Input> input, const LoadOptions& options, Program* program);
  ~ProgramLoader();

  // Waits for the next record; false behind the last. Does not touch the program.
  StatusOr<bool> Read();
  // Puts what Read got into the program.
  void Apply();
  // Counts so far into the program: aggregate, loops, facts. Counting goes on.
  void Snapshot();
  // Counts begin anew; address spaces and names stay.
  void ResetCounts();
  // After the last record: everything into the program.
  void Finish();

 private:
  class Impl;
  explicit ProgramLoader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads the whole recording; memory depends on the number of different branches, not on its size. Damage is in
// facts.problems; an error comes back only when nothing could be read. An aggregate file (docs/aggregate.md) gives the
// same Program without what needs whole stacks; filters on samples are refused there (INVALID_ARGUMENT).
StatusOr<std::unique_ptr<Program>> LoadProgram(const std::string& path, const LoadOptions& options);
// The same from an open recording.
StatusOr<std::unique_ptr<Program>> LoadProgram(std::unique_ptr<perfdata::Input> input, const LoadOptions& options);

}  // namespace brink::report
