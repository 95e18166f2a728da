// The main loop of `brink top`: keys, the clock, signals, the recorder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "report/loader.h"

namespace brink::top {

struct TopSpec {
  std::vector<std::string> record;   // words for `brink record`; empty: `input` is read
  std::string input;                 // a recording, or - for a stream
  std::string what;                  // said in the first line
  report::LoadOptions load;
  uint64_t delay_ns = 2'000'000'000; // between two pictures
};

struct TopResult {
  uint64_t samples = 0, branches = 0, lost = 0;
  uint64_t problems = 0;  // damage in what was read
};

// Blocks until the user ends it. FAILED_PRECONDITION without a terminal; where the recorder could not begin, its own
// words. A read error after the first picture is shown, not returned.
StatusOr<TopResult> Run(const TopSpec& spec);

}  // namespace brink::top
