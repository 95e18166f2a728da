// What changed between two recordings, or two groups of recordings.
//
// Rows of both sides are matched by name: function and file, and for single branches the place within the function. Branches
// without a name are matched by file offset, within the same build of a file only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/program.h"
#include "report/table.h"
#include "report/tables.h"

namespace brink::report {

using Programs = std::vector<std::unique_ptr<Program>>;

struct DiffOptions {
  double sigmas = 3;  // a change within so many standard errors is noise
  TableFilter filter;
};

struct DiffSummary {
  uint64_t old_samples = 0, new_samples = 0;
  uint64_t old_branches = 0, new_branches = 0;
  size_t old_recordings = 0, new_recordings = 0;
};

struct DiffTableKind {
  const char* name;  // functions branches edges lines
  const char* help;
};
std::span<const DiffTableKind> DiffTables();

struct Diff {
  Table table;                   // rows are made; the largest share that changed beyond noise is in `largest`
  double old_dispersion = 1, new_dispersion = 1;
  double largest = 0;            // fraction
  size_t changed = 0;            // rows beyond noise
};

// Both sides hold at least one recording. `name` is one of DiffTables(); anything else is INVALID_ARGUMENT.
StatusOr<Diff> MakeDiff(std::string_view name, Programs& old_side, Programs& new_side, const DiffOptions& options);

DiffSummary Summarise(const Programs& old_side, const Programs& new_side);
std::string DiffSummaryText(const Programs& old_side, const Programs& new_side);
// One JSON line, schema brink.diff.summary.v1.
std::string DiffSummaryJson(const Programs& old_side, const Programs& new_side, const Diff& first, double sigmas);

}  // namespace brink::report
