// Results of many runs in one file, so that a long set can be stopped and taken up again: a line a piece of work, words
// of the form key=value.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "truth.h"

namespace brink::fidelity {

// `set` names how walks were made and judged ("host alone"); wrong walks' texts are not kept.
Status AppendTally(const std::string& path, const std::string& set, const std::string& program, const Tally& tally);

struct LedgerSet {
  std::string name;
  std::vector<std::pair<std::string, Tally>> programs;  // sums, in the order of their first lines

  Tally* Of(const std::string& program);                // made where it is not there
};
// The file's sets. Lines that make no sense are skipped (the last may have been cut); no file: nothing.
std::vector<LedgerSet> ReadLedger(const std::string& path);

}  // namespace brink::fidelity
