// A table as a value: columns, typed cells, and its forms for terminals and programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace brink::report {

// Empty means unknown: shown as "-", written as null; never as zero.
using Cell = std::variant<std::monostate, uint64_t, double, std::string>;

enum class Format : uint8_t {
  kText,
  kCount,    // uint64_t
  kPercent,  // double, a fraction; shown times 100
  kNumber,   // double with one digit
  kAddress,  // uint64_t as 0x...
  kPoints,   // double, a difference of fractions; shown as +1.23 percentage points
  kNoise,    // uint64_t: 1 noise (shown as ~), 0 not; a boolean in JSON and CSV
};

struct Column {
  std::string name;   // snake_case: --fields, --sort, JSON and CSV
  std::string title;  // heading on a terminal
  Format format = Format::kText;
  bool shown = true;  // in the default selection of fields
};

struct Table {
  std::string name;
  std::string title;
  std::string family = "report";  // first part of the schema's name
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;  // said below the table

  int ColumnIndex(std::string_view name) const;  // -1 where there is none
};

inline Cell Unknown() { return std::monostate(); }
// num / den, unknown where den is 0.
Cell Ratio(uint64_t num, uint64_t den);

// "count,-from": columns in order of weight. Numbers fall and text rises, "-" turns that around; unknown cells come last.
// An unknown name is INVALID_ARGUMENT with the nearest ones.
Status Sort(Table* table, std::string_view keys);
// Keeps the named columns in the given order; "" keeps the default selection, "all" every one.
Status SelectFields(Table* table, std::string_view fields);
// Drops rows whose `column` is below `least` (a fraction). Says in notes how many.
void LimitPercent(Table* table, std::string_view column, double least);
void LimitRows(Table* table, size_t most);

struct TextOptions {
  size_t width = 0;    // cut long text cells so that lines fit; 0 = do not cut
  bool colour = false;
  bool headings = true;
};
// Untrusted text in it is escaped.
std::string RenderText(const Table& table, const TextOptions& options);
std::string RenderCsv(const Table& table);
// One line a row: {"schema":"brink.FAMILY.NAME.v1", ...}.
std::string RenderJsonLines(const Table& table);

// As a JSON string, quotes included: text escaped for terminals first, so that bytes that are no UTF-8 survive as \xNN.
std::string JsonString(std::string_view text);
std::string JsonValue(const Cell& cell, Format format);
std::string CellText(const Cell& cell, Format format);

}  // namespace brink::report
