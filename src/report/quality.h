// Is the recording good enough for what one wants to know? Pure, but for the names in the per-function table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/program.h"
#include "report/table.h"

namespace brink::report {

// enum brink_source.
std::string_view SourceName(uint8_t source);

struct DepthStats {
  double mean = 0;
  uint32_t median = 0, p90 = 0, max = 0;
};
DepthStats DepthOf(const Aggregate& aggregate);

struct Quality {
  // Overlap of the branch distributions of every second sample with the others: sum of min(p, q), 1 = the same.
  std::optional<double> halves_overlap;
  // What two halves of that size would give if the recording were perfectly representative (sampling noise only).
  std::optional<double> noise_overlap;
  uint64_t distinct_branches = 0;
  uint64_t seen_once = 0;              // distinct branches with count 1
  // Share of executed branches that the recording is likely to have never shown (Good-Turing: seen once / all).
  double missing_mass = 0;
  double unresolved_share = 0;         // branches without a name
  std::vector<std::string> stale;      // objects whose build id differs from the file's, one line each
  enum class Verdict { kEnough, kAlmost, kNotYet, kEmpty } verdict = Verdict::kEmpty;
  std::vector<std::string> reasons;    // of the verdict, and what to do
};

Quality Judge(Program& program);
// Function, samples, branches, share, overlap of halves, bytes covered by ranges.
Table QualityTable(Program& program);
std::string_view VerdictName(Quality::Verdict verdict);  // "enough", "almost", "not_yet", "empty"

}  // namespace brink::report
