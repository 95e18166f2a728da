#include "cli/table_output.h"

#include <cstdlib>

#include "base/strings.h"
#include "base/units.h"
#include "cli/report_options.h"

namespace brink::cli {
namespace {

StatusOr<double> ParsePercent(std::string_view text) {
  std::string word(text);
  if (word.ends_with('%')) word.pop_back();
  char* end = nullptr;
  double percent = std::strtod(word.c_str(), &end);
  if (word.empty() || *end || !(percent >= 0) || percent > 100) return InvalidArgument("'" + EscapeForTerminal(text) + "' is no number from 0 to 100");
  return percent;
}

}  // namespace

void TableOutput::AddOptions(std::vector<Option>* options, const char* sort_help, const char* schema_help) {
  auto add = [&](Option option) { options->push_back(std::move(option)); };
  auto store_format = [this](const char* name) {
    return [this, name](std::string_view file) {
      format = name;
      output = std::string(file);
      return OkStatus();
    };
  };
  add({.letter = 's', .name = "sort", .value = Value::kRequired, .meta = "FIELDS", .group = "What", .help = sort_help, .set = StoreString(&sort)});
  add({.name = "fields", .value = Value::kRequired, .meta = "FIELDS", .group = "What", .help = "The columns, in this order; all shows every one.", .set = StoreString(&fields)});
  add({.name = "percent-limit", .value = Value::kRequired, .meta = "PERCENT", .group = "Filters", .help = "Leave out rows with a smaller share.", .set = [this](std::string_view v) -> Status {
         ASSIGN_OR_RETURN(percent_limit, ParsePercent(v));
         return OkStatus();
       }});
  add({.letter = 'n', .name = "max-rows", .value = Value::kRequired, .meta = "COUNT", .group = "Output", .help = "Rows of a table; 0 shows all. Without it: 30, in JSON and CSV all.", .set = [this](std::string_view v) -> Status {
         ASSIGN_OR_RETURN(max_rows, ParseUint(v));
         rows_given = true;
         return OkStatus();
       }});
  add({.name = "format", .value = Value::kRequired, .meta = "text|json|csv", .group = "Output", .help = schema_help, .set = [this](std::string_view v) -> Status {
         if (v != "text" && v != "json" && v != "csv") return InvalidArgument("'" + EscapeForTerminal(v) + "' is none of text, json, csv");
         format = std::string(v);
         return OkStatus();
       }});
  add({.name = "json", .value = Value::kOptional, .meta = "FILE", .group = "Output", .help = "The same as --format json, into FILE if one is given.", .writes = true, .set = store_format("json")});
  add({.name = "csv", .value = Value::kOptional, .meta = "FILE", .group = "Output", .help = "The same as --format csv, into FILE if one is given.", .writes = true, .set = store_format("csv")});
  add({.name = "width", .value = Value::kRequired, .meta = "COLUMNS", .group = "Output", .help = "Cut names so that lines fit; 0 cuts nothing. Without it: the terminal's width.", .set = [this](std::string_view v) -> Status {
         ASSIGN_OR_RETURN(width, ParseUint(v));
         width_given = true;
         return OkStatus();
       }});
}

StatusOr<std::string> TableOutput::Render(report::Table table, const char* default_sort, const char* share_column, bool colour) const {
  RETURN_IF_ERROR(report::Sort(&table, sort.empty() ? default_sort : sort));
  if (share_column) report::LimitPercent(&table, share_column, percent_limit / 100);
  const uint64_t limit = rows_given || text() ? max_rows : 0;
  if (limit > 0) report::LimitRows(&table, limit);
  RETURN_IF_ERROR(report::SelectFields(&table, fields.empty() && !text() ? "all" : fields));
  if (json()) return report::RenderJsonLines(table);
  if (format == "csv") return report::RenderCsv(table);
  const size_t columns = width_given ? width : output.empty() ? TerminalWidth() : 0;
  return "\n" + table.title + "\n" + report::RenderText(table, {.width = columns, .colour = colour && output.empty()});
}

}  // namespace brink::cli
