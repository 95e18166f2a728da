// What the latency tests share: brink under its own name and under cyclictest's, and the parser for both outputs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "latency/parse_cyclic.h"
#include "support/process.h"

namespace brink::latency {

using testing_support::BrinkBinary;
using testing_support::ProcessResult;
using testing_support::Run;
using testing_support::RunBrink;
using testing_support::TempDir;

// brink through a link named cyclictest.
inline ProcessResult RunAsCyclictest(std::vector<std::string> args, const testing_support::RunOptions& options = {}) {
  static TempDir dir;
  std::string link = dir.File("cyclictest");
  if (!std::filesystem::exists(link)) std::filesystem::create_symlink(std::filesystem::absolute(BrinkBinary()), link);
  args.insert(args.begin(), link);
  return Run(args, options);
}

inline CyclicOutput ParseOf(const ProcessResult& result) { return ParseCyclicText(result.out); }

}  // namespace brink::latency
