// Which branches are predicted badly, what that costs, and what to try.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/program.h"

namespace brink::report {

struct MispredictRow {
  Location from;
  Kind kind = Kind::kUnknown;
  uint64_t mispredicted = 0;
  uint64_t known = 0;            // executions whose prediction is known (taken ones: branch records hold no others)
  double share = 0;              // of all mispredictions
  double cost_cycles = 0;        // per misprediction
  bool cost_measured = false;    // else kAssumedPenalty
  double loss_cycles = 0;        // mispredicted * cost
  std::optional<double> taken_ratio;  // of conditionals, where straight ranges tell how often it was passed
  size_t targets = 0;            // different ones
  std::string advice;
};

struct MispredictReport {
  std::vector<MispredictRow> rows;  // by loss, largest first
  std::vector<std::string> notes;   // "3 branches make 80 % of the loss", ...
  bool prediction_known = false;
};

// Mean pipeline refill of current cores, used where the cycles after mispredicted and predicted executions of a branch do
// not both appear at least kLeastSamples times.
inline constexpr double kAssumedPenalty = 18;
inline constexpr uint64_t kLeastSamples = 8;

MispredictReport FindMispredictions(Program& program);

}  // namespace brink::report
