// Reads samples from a perf.data file: as little as comparing needs, and independent of brink's own reader.
#pragma once

#include <string>
#include <vector>

#include "harness.h"

namespace brink::guest {

struct Recording {
  uint64_t branch_type = 0;  // of the first attribute that has branch stacks
  std::vector<Sample> samples;
};

// Only uncompressed files of one sample layout; others are an empty Recording.
Recording ReadRecording(const std::string& path);

// Runs the built brink; its exit status, with what it said in `said`.
int RunBrinkHere(const std::vector<std::string>& words, std::string& said);

}  // namespace brink::guest
