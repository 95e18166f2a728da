// A program to optimise, built in the ways that matter, and what can be counted of its recordings without brink's own
// address spaces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/process.h"

namespace brink::export_test {

using testing_support::ProcessResult;
using testing_support::TempDir;

// Compiled once a test program; "" where the compiler is missing.
//   pie, fixed   gcc, position-independent and not
//   lld          clang and lld: the first two segments share a file page
//   frames       gcc with frame pointers, for call chains
std::string Program(const std::string& how);

// `brink record` of a command, as `options` say; the recording's path. Fails the test where it fails.
std::string Record(const TempDir& dir, const std::string& name, const std::vector<std::string>& options, const std::vector<std::string>& command);

// `brink export`; fails the test where it fails.
ProcessResult Export(std::vector<std::string> words);

// Entries of all stacks with at least one end in a mapping of `path`, by its processes; and processes that had any.
struct EntryCount {
  uint64_t inside = 0, outside = 0;
  size_t processes = 0;
};
EntryCount CountEntries(const std::string& recording, const std::string& path);

// The number in front of or behind a phrase, -1 where it is not.
double NumberIn(const std::string& text, const std::string& pattern);

std::vector<std::string> SortedLines(const std::string& path);

inline constexpr const char* kPerf2Bolt = "/usr/lib/llvm-19/bin/perf2bolt";  // by another name it acts as llvm-bolt
inline constexpr const char* kProfgen = "/usr/bin/llvm-profgen-19";

}  // namespace brink::export_test
