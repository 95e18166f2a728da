// How tables are shown: the options that report and diff share, and what they do.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "report/table.h"

namespace brink::cli {

// Owns what its options store. Lives as long as the command.
struct TableOutput {
  std::string sort, fields, format = "text", output;
  double percent_limit = 0;
  uint64_t max_rows = 30, width = 0;
  bool rows_given = false, width_given = false;

  bool text() const { return format == "text"; }
  bool json() const { return format == "json"; }
  // -s, --fields, --percent-limit, -n, --format, --json, --csv, --width. The texts live as long as the program.
  void AddOptions(std::vector<Option>* options, const char* sort_help, const char* schema_help);
  // Sorted, limited and rendered in the chosen format; text begins with an empty line and the title.
  // INVALID_ARGUMENT for fields that the table does not have.
  StatusOr<std::string> Render(report::Table table, const char* default_sort, const char* share_column, bool colour) const;
};

}  // namespace brink::cli
