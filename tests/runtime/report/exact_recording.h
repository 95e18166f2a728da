// A recording whose every branch is known to be right: the program is single-stepped in windows (x86-64).
//
// Stands in for branch hardware in tests of the read side. Predictions come from a simulated two-bit counter per branch,
// cycles are the instructions since the branch before, plus 15 behind each misprediction: both are arithmetic that a test can redo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace brink::testing_report {

struct ExactOptions {
  std::vector<std::string> command;
  std::string output;
  unsigned windows = 30;
  unsigned depth = 64;          // branches of one stack
  unsigned repeat = 1;          // write each stack so often: for big files
  unsigned gap_us = 500;        // free run between two windows
  bool predictions = true;
  bool cycles = true;
  bool kinds = true;            // false: as kernels before 4.14 wrote it
};

struct ExactCounts {
  uint64_t samples = 0;
  uint64_t branches = 0;
  uint64_t mispredicted = 0;
};

// UNAVAILABLE where ptrace is refused or the machine is no x86-64.
StatusOr<ExactCounts> RecordExactly(const ExactOptions& options);

}  // namespace brink::testing_report
