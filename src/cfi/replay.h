// The policies over a whole recording, of any source.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "cfi/policies.h"
#include "cfi/process_map.h"

namespace brink::cfi {

struct ReplayOptions {
  symbol::LocateOptions locate;
  FactLimits facts;
  bool jit_allowed = false;   // anonymous code is a JIT's, whoever made it
  // Sees every window and the code it ran in, before it is judged.
  std::function<void(const Window&, CodeMap&)> on_window;
  size_t max_files = 512;     // whose facts are kept at once
  size_t max_places = 65'536; // distinct violations that are told apart; further ones are counted only
};

struct Event {
  Violation violation;
  EventSide from, to;
  int32_t pid = 0, tid = 0;
  std::string comm;
  uint64_t time_ns = 0;      // of the first
  uint64_t count = 1;        // of the same violation at the same place
  size_t window_len = 0;
  bool contiguous = true;
  std::vector<BranchEntry> branches;  // of the first window, newest first
};

struct ReplayReport {
  std::vector<Event> events;  // one a place and policy, most severe first, then by time
  Result totals;              // counts of all windows
  uint64_t samples = 0, windows = 0, untold = 0;  // untold: violations beyond max_places
  uint64_t files = 0, files_missing = 0;
  uint64_t lost = 0;          // records and samples that the recording itself reports lost
  bool damaged = false;
  std::map<std::string, uint64_t> missing;  // files without facts, with how many records asked for them
};

StatusOr<ReplayReport> Replay(const std::string& path, const ReplayOptions& options);

}  // namespace brink::cfi
