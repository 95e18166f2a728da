// Recordings out of recordings: what a filter keeps, or several as one, in the form that brink itself writes.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "report/loader.h"

namespace brink::exporter {

struct RewriteResult {
  uint64_t samples = 0, branches = 0;
  uint64_t skipped_records = 0;          // kinds that are not written again (context switches, traces, ...)
  uint64_t dropped_fields = 0;           // sample fields left out (registers, stacks, counter values): bits of sample_type
  uint64_t problems = 0;                 // damage in the inputs
  std::vector<std::string> notes;        // one line each, for people
};

// Writes `inputs` as one recording. Of `load` the filters count (pid, tid, comm, time, where, brbe_model; no symbols).
// Records of several inputs are ordered by their own clocks. Processes of another host than the first input's get
// numbers above 2^22, so that equal pids stay apart. A filter on branches ends contiguity, and the recording says so.
StatusOr<RewriteResult> Rewrite(const std::vector<std::string>& inputs, const std::string& output, const report::LoadOptions& load, int compression_level = 0);

}  // namespace brink::exporter
