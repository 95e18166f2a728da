#include "report/table.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::report {
namespace {

// Columns on a terminal, by code points: good enough for identifiers and paths.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// The middle of a name says least: its start is the namespace, its end the function.
std::string Shorten(const std::string& text, size_t width) {
  if (width < 8 || Width(text) <= width) return text;
  size_t head = width / 3, tail = width - head - 2;
  auto boundary = [&](size_t at) {
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
    return at;
  };
  return text.substr(0, boundary(head)) + ".." + text.substr(boundary(text.size() - tail));
}

int Compare(const Cell& a, const Cell& b) {
  auto number = [](const Cell& cell) {
    if (const uint64_t* value = std::get_if<uint64_t>(&cell)) return static_cast<double>(*value);
    return std::get<double>(cell);
  };
  if (const std::string* text = std::get_if<std::string>(&a)) return std::holds_alternative<std::string>(b) ? text->compare(std::get<std::string>(b)) : 1;
  if (std::holds_alternative<std::string>(b)) return -1;
  if (std::holds_alternative<uint64_t>(a) && std::holds_alternative<uint64_t>(b)) {
    uint64_t x = std::get<uint64_t>(a), y = std::get<uint64_t>(b);
    return x < y ? -1 : x > y;
  }
  double x = number(a), y = number(b);
  return x < y ? -1 : x > y;
}

Status UnknownColumn(const Table& table, std::string_view name) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  auto nearest = NearestNames(name, names, 2);
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  return InvalidArgument("table '" + table.name + "' has no field '" + EscapeForTerminal(name) + "'" +
                         (nearest.empty() ? "" : "; did you mean '" + nearest[0] + "'?") + " (fields: " + all + ")");
}

bool IsText(Format format) { return format == Format::kText; }

}  // namespace

int Table::ColumnIndex(std::string_view wanted) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == wanted) return static_cast<int>(i);
  }
  return -1;
}

Cell Ratio(uint64_t num, uint64_t den) {
  if (den == 0) return Unknown();
  return static_cast<double>(num) / static_cast<double>(den);
}

Status Sort(Table* table, std::string_view keys) {
  struct Key {
    size_t column;
    bool falling;
  };
  std::vector<Key> order;
  for (std::string_view key : Split(keys, ',')) {
    key = Trim(key);
    bool reverse = key.starts_with('-');
    if (reverse) key.remove_prefix(1);
    int index = table->ColumnIndex(key);
    if (index < 0) return UnknownColumn(*table, key);
    order.push_back({static_cast<size_t>(index), IsText(table->columns[static_cast<size_t>(index)].format) == reverse});
  }
  std::stable_sort(table->rows.begin(), table->rows.end(), [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    for (const Key& key : order) {
      const Cell &x = a[key.column], &y = b[key.column];
      bool no_x = std::holds_alternative<std::monostate>(x), no_y = std::holds_alternative<std::monostate>(y);
      if (no_x != no_y) return no_y;
      if (no_x) continue;
      int compared = Compare(x, y);
      if (compared != 0) return key.falling ? compared > 0 : compared < 0;
    }
    return false;
  });
  return OkStatus();
}

Status SelectFields(Table* table, std::string_view fields) {
  std::vector<size_t> chosen;
  if (fields.empty() || fields == "all") {
    for (size_t i = 0; i < table->columns.size(); ++i) {
      if (fields == "all" || table->columns[i].shown) chosen.push_back(i);
    }
  } else {
    for (std::string_view field : Split(fields, ',')) {
      int index = table->ColumnIndex(Trim(field));
      if (index < 0) return UnknownColumn(*table, Trim(field));
      chosen.push_back(static_cast<size_t>(index));
    }
  }
  auto pick = [&](auto& from) {
    std::remove_reference_t<decltype(from)> to;
    for (size_t i : chosen) to.push_back(from[i]);
    from = std::move(to);
  };
  pick(table->columns);
  for (auto& row : table->rows) pick(row);
  return OkStatus();
}

void LimitPercent(Table* table, std::string_view column, double least) {
  int index = table->ColumnIndex(column);
  if (index < 0 || least <= 0) return;
  size_t before = table->rows.size();
  std::erase_if(table->rows, [&](const std::vector<Cell>& row) {
    const double* value = std::get_if<double>(&row[static_cast<size_t>(index)]);
    return value && *value < least;
  });
  if (size_t dropped = before - table->rows.size()) {
    table->notes.push_back(absl::StrFormat("%d rows below %.3g %% left out (--percent-limit)", dropped, least * 100));
  }
}

void LimitRows(Table* table, size_t most) {
  if (table->rows.size() <= most) return;
  table->notes.push_back(absl::StrFormat("%d more rows (--max-rows 0 shows all)", table->rows.size() - most));
  table->rows.resize(most);
}

std::string CellText(const Cell& cell, Format format) {
  if (std::holds_alternative<std::monostate>(cell)) return "-";
  if (const std::string* text = std::get_if<std::string>(&cell)) return EscapeForTerminal(*text);
  if (const uint64_t* value = std::get_if<uint64_t>(&cell)) {
    if (format == Format::kAddress) return absl::StrFormat("%#x", *value);
    if (format == Format::kNoise) return *value ? "~" : "";
    return std::to_string(*value);
  }
  double value = std::get<double>(cell);
  if (format == Format::kPercent) return absl::StrFormat("%.2f%%", value * 100);
  if (format == Format::kPoints) return absl::StrFormat("%+.2f", value * 100);
  return absl::StrFormat("%.1f", value);
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (char c : EscapeForTerminal(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string JsonValue(const Cell& cell, Format format) {
  if (std::holds_alternative<std::monostate>(cell)) return "null";
  if (const std::string* text = std::get_if<std::string>(&cell)) return JsonString(*text);
  if (const uint64_t* value = std::get_if<uint64_t>(&cell)) {
    if (format == Format::kNoise) return *value ? "true" : "false";
    return format == Format::kAddress ? absl::StrFormat("\"%#x\"", *value) : std::to_string(*value);
  }
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, std::get<double>(cell), std::chars_format::general, 9);
  return error == std::errc() ? std::string(buffer, end) : "null";
}

std::string RenderText(const Table& table, const TextOptions& options) {
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> widths;
  for (const Column& column : table.columns) widths.push_back(options.headings ? Width(column.title) : 0);
  for (const auto& row : table.rows) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < row.size(); ++i) {
      texts.push_back(CellText(row[i], table.columns[i].format));
      widths[i] = std::max(widths[i], Width(texts.back()));
    }
    cells.push_back(std::move(texts));
  }
  size_t total = std::accumulate(widths.begin(), widths.end(), size_t{0}) + 2 * widths.size();
  // Too wide: the widest text columns give way, each down to 16.
  while (options.width > 0 && total > options.width) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (IsText(table.columns[i].format) && widths[i] > 16 && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) break;
    --widths[widest];
    --total;
  }
  std::string out;
  auto line = [&](const std::vector<std::string>& texts, bool heading) {
    std::string text;
    for (size_t i = 0; i < texts.size(); ++i) {
      std::string cell = Shorten(texts[i], widths[i]);
      std::string pad(widths[i] - std::min(widths[i], Width(cell)), ' ');
      bool right = !IsText(table.columns[i].format);
      text += right ? pad + cell : cell + (i + 1 < texts.size() ? pad : "");
      if (i + 1 < texts.size()) text += "  ";
    }
    out += heading && options.colour ? "\033[1m" + text + "\033[0m\n" : text + "\n";
  };
  if (options.headings) {
    std::vector<std::string> titles;
    for (const Column& column : table.columns) titles.push_back(column.title);
    line(titles, true);
  }
  for (const auto& texts : cells) line(texts, false);
  if (table.rows.empty()) out += "(no rows)\n";
  for (const std::string& note : table.notes) out += "# " + note + "\n";
  return out;
}

std::string RenderCsv(const Table& table) {
  std::string out;
  for (size_t i = 0; i < table.columns.size(); ++i) out += (i ? "," : "") + table.columns[i].name;
  out += '\n';
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i) out += ',';
      if (std::holds_alternative<std::monostate>(row[i])) continue;
      if (const std::string* text = std::get_if<std::string>(&row[i])) {
        std::string safe = EscapeForTerminal(*text);
        // A leading =, +, - or @ would be a formula to a spreadsheet.
        bool formula = !safe.empty() && std::string_view("=+-@").find(safe[0]) != std::string_view::npos;
        out += '"';
        if (formula) out += '\'';
        for (char c : safe) out += c == '"' ? std::string("\"\"") : std::string(1, c);
        out += '"';
      } else {
        std::string value = JsonValue(row[i], table.columns[i].format);
        std::erase(value, '"');
        out += value;
      }
    }
    out += '\n';
  }
  return out;
}

std::string RenderJsonLines(const Table& table) {
  std::string out;
  for (const auto& row : table.rows) {
    out += "{\"schema\":\"brink." + table.family + "." + table.name + ".v1\"";
    for (size_t i = 0; i < row.size(); ++i) {
      out += ",\"" + table.columns[i].name + "\":" + JsonValue(row[i], table.columns[i].format);
    }
    out += "}\n";
  }
  return out;
}

}  // namespace brink::report
