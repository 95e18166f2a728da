// The true branches of a small program, taken by single stepping: stacks for consumers that check them against the binary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brink/abi/event.h"

namespace brink::perfdata {

struct TracedMapping {
  uint64_t start = 0, length = 0, pgoff = 0;
};

struct TracedProgram {
  std::string path;
  uint32_t pid = 0;
  std::vector<TracedMapping> mappings;  // executable ones of the binary itself
  uint64_t bias = 0;                    // run-time minus link-time address
  std::vector<brink_branch> branches;   // every taken branch in its order, oldest first
};

// Compiles `source` with `flags` (clang-19 or gcc) into `path`. False where there is no compiler.
bool CompileProgram(const std::string& source, const std::string& flags, const std::string& path);

// Runs the program to its end under ptrace, at most `max_steps`. What lies outside the binary is stepped over but not
// recorded. Needs objdump for the lengths of instructions; nothing where ptrace or objdump is not to be had.
std::optional<TracedProgram> TraceProgram(const std::string& path, size_t max_steps);

}  // namespace brink::perfdata
