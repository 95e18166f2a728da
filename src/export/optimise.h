// From recordings to the profile of one binary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "export/stacks.h"
#include "export/text.h"
#include "report/loader.h"

namespace brink::exporter {

enum class Optimiser { kBolt, kProfgen, kProfgenUnsymbolized, kAutofdo };

struct OptimiseOptions {
  Optimiser format = Optimiser::kBolt;
  std::vector<std::string> binaries;  // as Binary::Choose takes them; empty: the recorded file with most branches
  BoltDialect dialect = BoltDialect::kOld;
  bool chains = false;                // kProfgen: context-sensitive
  bool branches_only = false;         // also of stacks that are not contiguous; then without ranges
};

struct BinaryProfile {
  Binary binary;
  OptimiserText profile;
  std::vector<std::string> notes;  // one line each, for people
};

struct OptimiseResult {
  std::unique_ptr<report::Program> program;
  std::vector<BinaryProfile> profiles;  // one for each of `binaries`, at least one
};

// FAILED_PRECONDITION for stacks that are not contiguous: the message says how to record.
StatusOr<OptimiseResult> Optimise(const std::string& input, report::LoadOptions load, const OptimiseOptions& options);

// OK when straight code may be read off the stacks.
Status RequireContiguous(const report::Aggregate& aggregate, const std::string& input);

}  // namespace brink::exporter
