// A brink recording read back and judged as a whole: how deep its stacks are, why they end, whether they are true to
// the program text.
#pragma once

#include <array>
#include <string>

#include "base/status.h"
#include "walk/stack_check.h"

namespace brink::testing_support {

struct RecordingVerdict {
  StackVerdict code;
  uint64_t samples = 0;
  uint64_t with_stack = 0;
  uint64_t branches = 0;
  std::array<uint64_t, BRINK_STOP_MAX> stops{};  // by enum brink_stop
  uint64_t unmapped = 0;                         // branch addresses without a mapping
  uint64_t steps = 0, walk_ns = 0;

  // Of the stacks that did not end for want of code that was still to be lifted: how soon that is there hangs on the
  // machine's load.
  uint64_t warm_samples = 0, warm_branches = 0;

  double mean_depth() const { return with_stack ? static_cast<double>(branches) / static_cast<double>(with_stack) : 0; }
  double share(brink_stop stop) const { return samples ? static_cast<double>(stops[stop]) / static_cast<double>(samples) : 0; }
  double warm_depth() const { return warm_samples ? static_cast<double>(warm_branches) / static_cast<double>(warm_samples) : 0; }
  double warm_share(brink_stop stop) const { return warm_samples ? static_cast<double>(stops[stop]) / static_cast<double>(warm_samples) : 0; }
};

// Reads the file with brink's reader; program text comes from the mapped files.
StatusOr<RecordingVerdict> CheckRecording(const std::string& path);

// One line for a person: counts, mean depth, stop reasons.
std::string Describe(const RecordingVerdict& verdict);

}  // namespace brink::testing_support
