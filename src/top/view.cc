#include "top/view.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::top {
namespace {

using report::Cell;
using report::Table;

const std::vector<std::string> kHelp = {
    "1-8, Tab       another table",
    "Up, Down, j, k choose a row; PgUp, PgDn, Home, End go further",
    "Enter          source and assembly of the row's function; Escape comes back",
    "< and >        order by the column to the left or right; r turns the order around",
    "/              show only rows that contain a text; an empty one shows all",
    "i              count since the start, or in the last interval only",
    "z              begin to count anew",
    "Space, p       hold the picture; recording goes on",
    "h, ?           this page",
    "q              end",
};

std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

bool Contains(const std::vector<Cell>& row, const std::string& text) {
  for (const Cell& cell : row) {
    const std::string* word = std::get_if<std::string>(&cell);
    if (word && word->find(text) != std::string::npos) return true;
  }
  return false;
}

// The function that a row is about: its own column, or the front of "name+0x1c".
std::string FunctionOf(const Table& table, const std::vector<Cell>& row) {
  for (const char* name : {"function", "from_symbol", "from", "site", "head", "start", "branch", "latch"}) {
    const int index = table.ColumnIndex(name);
    if (index < 0) continue;
    const std::string* text = std::get_if<std::string>(&row[static_cast<size_t>(index)]);
    if (!text) continue;
    const size_t plus = text->rfind("+0x");
    return plus == std::string::npos ? *text : text->substr(0, plus);
  }
  return "";
}

}  // namespace

const std::vector<const report::TableKind*>& LiveTables() {
  static const std::vector<const report::TableKind*> tables = [] {
    std::vector<const report::TableKind*> out;
    for (const char* name : {"functions", "branches", "edges", "lines", "calls", "loops", "mispredict", "stops"}) out.push_back(*report::FindTable(name));
    return out;
  }();
  return tables;
}

Wishes View::OnKey(const Key& key) {
  Wishes wishes{.redraw = true};
  note_.clear();
  if (key.code == KeyCode::kInterrupt) wishes.quit = true;
  else if (typing_) OnFilterKey(key);
  else if (page_ != Page::kTable) OnTextKey(key);
  else OnTableKey(key, &wishes);
  return wishes;
}

void View::OnFilterKey(const Key& key) {
  if (key.code == KeyCode::kChar) filter_ += key.character;
  else if (key.code == KeyCode::kBackspace && !filter_.empty()) filter_.pop_back();
  else if (key.code == KeyCode::kEscape) filter_.clear();
  if (key.code == KeyCode::kEnter || key.code == KeyCode::kEscape) typing_ = false;
  table_.reset();
  selected_ = first_ = 0;
}

void View::OnTextKey(const Key& key) {
  const size_t last = text_.size() > page_rows_ ? text_.size() - page_rows_ : 0;
  const char c = key.code == KeyCode::kChar ? key.character : 0;
  if (key.code == KeyCode::kEscape || key.code == KeyCode::kLeft || c == 'q' || c == 'h' || c == '?') page_ = Page::kTable;
  else if (key.code == KeyCode::kDown || c == 'j') ++text_first_;
  else if ((key.code == KeyCode::kUp || c == 'k') && text_first_ > 0) --text_first_;
  else if (key.code == KeyCode::kPageDown || c == ' ') text_first_ += page_rows_;
  else if (key.code == KeyCode::kPageUp) text_first_ -= std::min(text_first_, page_rows_);
  else if (key.code == KeyCode::kHome) text_first_ = 0;
  else if (key.code == KeyCode::kEnd) text_first_ = last;
  text_first_ = std::min(text_first_, last);
}

void View::OnTableKey(const Key& key, Wishes* wishes) {
  const int64_t page = static_cast<int64_t>(page_rows_);
  switch (key.code) {
    case KeyCode::kUp: return Move(-1);
    case KeyCode::kDown: return Move(1);
    case KeyCode::kPageUp: return Move(-page);
    case KeyCode::kPageDown: return Move(page);
    case KeyCode::kHome: return Move(-(int64_t{1} << 40));
    case KeyCode::kEnd: return Move(int64_t{1} << 40);
    case KeyCode::kTab: case KeyCode::kRight: return ChooseTable((kind_ + 1) % LiveTables().size());
    case KeyCode::kBackTab: case KeyCode::kLeft: return ChooseTable((kind_ + LiveTables().size() - 1) % LiveTables().size());
    case KeyCode::kEnter: return OpenFunction();
    case KeyCode::kEscape:
      filter_.clear();
      table_.reset();
      return;
    case KeyCode::kChar: return OnChar(key.character, wishes);
    default: return;
  }
}

void View::OnChar(char c, Wishes* wishes) {
  if (c >= '1' && static_cast<size_t>(c - '1') < LiveTables().size()) return ChooseTable(static_cast<size_t>(c - '1'));
  switch (c) {
    case 'q': wishes->quit = true; return;
    case 'j': return Move(1);
    case 'k': return Move(-1);
    case '<': return ChangeSort(-1);
    case '>': return ChangeSort(1);
    case 'r': reversed_ = !reversed_; table_.reset(); return;
    case '/': typing_ = true; return;
    case ' ': case 'p': paused_ = !paused_; return;
    case 'i': per_interval_ = !per_interval_; wishes->reset = true; return;
    case 'z': wishes->reset = true; return;
    case 'h': case '?':
      page_ = Page::kHelp;
      text_ = kHelp;
      text_first_ = 0;
      return;
    default: note_ = "h shows the keys"; return;
  }
}

void View::Move(int64_t by) {
  const int64_t rows = static_cast<int64_t>(CurrentTable().rows.size());
  selected_ = static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(selected_) + by, 0, std::max<int64_t>(rows - 1, 0)));
}

void View::ChooseTable(size_t index) {
  kind_ = index;
  sort_column_.clear();
  reversed_ = false;
  selected_ = first_ = 0;
  table_.reset();
}

void View::ChangeSort(int by) {
  const Table& table = CurrentTable();
  const int columns = static_cast<int>(table.columns.size());
  if (columns == 0) return;
  const int now = table.ColumnIndex(sort_column_);
  sort_column_ = table.columns[static_cast<size_t>((std::max(now, 0) + (now < 0 && by > 0 ? 0 : by) + columns) % columns)].name;
  table_.reset();
}

void View::OpenFunction() {
  const Table& table = CurrentTable();
  if (selected_ >= table.rows.size()) return;
  const std::string function = FunctionOf(table, table.rows[selected_]);
  if (function.empty()) {
    note_ = "this row is of no function";
    return;
  }
  auto text = model_.Annotate(function);
  if (!text.ok()) {
    note_ = EscapeForTerminal(Message(text.status()));
    return;
  }
  text_ = *std::move(text);
  text_first_ = 0;
  page_ = Page::kFunction;
}

// Sorted, filtered, and with the fields that are shown.
const Table& View::CurrentTable() {
  if (table_) return *table_;
  const report::TableKind& kind = *LiveTables()[kind_];
  Table table = model_.TableOf(kind);
  if (!filter_.empty()) std::erase_if(table.rows, [this](const std::vector<Cell>& row) { return !Contains(row, filter_); });
  // The order is one of the table's own columns, or of one that is there to be seen.
  auto sorted = report::Sort(&table, sort_column_.empty() ? kind.default_sort : sort_column_);
  if (sorted.ok() && reversed_) std::reverse(table.rows.begin(), table.rows.end());
  (void)report::SelectFields(&table, "");
  table_ = std::move(table);
  return *table_;
}

std::vector<Line> View::Status(const Facts& facts, size_t columns) const {
  // The state first: a long name must not push it off the screen.
  std::string text = "brink top";
  if (facts.ended) text += " [ended]";
  if (paused_) text += " [held]";
  if (per_interval_) text += " [last interval]";
  text += "  " + EscapeForTerminal(facts.source) + "  " + Grouped(facts.samples) + " samples";
  if (!facts.ended) text += absl::StrFormat(" (%.0f/s)", facts.samples_per_second);
  text += "  " + Grouped(facts.branches) + " branches";
  if (facts.lost) text += "  LOST " + Grouped(facts.lost);
  std::string tabs;
  for (size_t i = 0; i < LiveTables().size(); ++i) {
    const std::string name = std::to_string(i + 1) + " " + LiveTables()[i]->name;
    tabs += i == kind_ ? "[" + name + "]" : " " + name + " ";
    if (tabs.size() > columns) break;
  }
  return {{text, Style::kBold}, {tabs, Style::kPlain}};
}

void View::DrawTable(size_t room, size_t columns, std::vector<Line>* lines) {
  Table table = CurrentTable();
  page_rows_ = room > 1 ? room - 1 : 1;
  selected_ = std::min(selected_, table.rows.empty() ? 0 : table.rows.size() - 1);
  first_ = std::min(first_, selected_);
  if (selected_ >= first_ + page_rows_) first_ = selected_ - page_rows_ + 1;
  const std::vector<std::string> notes = std::exchange(table.notes, {});
  if (const int sorted = table.ColumnIndex(sort_column_); sorted >= 0) table.columns[static_cast<size_t>(sorted)].title += "*";
  const size_t last = std::min(first_ + page_rows_, table.rows.size());
  const bool empty = table.rows.empty();
  table.rows = {table.rows.begin() + static_cast<std::ptrdiff_t>(std::min(first_, last)), table.rows.begin() + static_cast<std::ptrdiff_t>(last)};
  const std::string text = report::RenderText(table, {.width = columns});
  size_t row = 0;
  for (std::string_view line : Split(text, '\n')) {
    if (line.empty()) continue;
    Style style = row == 0 ? Style::kBold : !empty && first_ + row - 1 == selected_ ? Style::kReverse : Style::kPlain;
    lines->push_back({std::string(line), style});
    ++row;
  }
  // What is to be said of the table, where there is room below it.
  for (const std::string& note : notes) {
    if (row++ < room) lines->push_back({"# " + EscapeForTerminal(note), Style::kDim});
  }
}

void View::DrawText(size_t room, std::vector<Line>* lines) {
  page_rows_ = room;
  text_first_ = std::min(text_first_, text_.size() > room ? text_.size() - room : 0);
  for (size_t i = text_first_; i < text_.size() && i < text_first_ + room; ++i) lines->push_back({text_[i], Style::kPlain});
}

std::string View::Footer() const {
  if (typing_) return "show rows with: " + filter_ + "_";
  if (!note_.empty()) return note_;
  if (page_ == Page::kFunction) return "Up, Down, PgUp, PgDn: scroll   Escape: back";
  if (page_ == Page::kHelp) return "Escape: back";
  std::string text = "Enter: code   /: filter   < >: order   i: interval   z: zero   Space: hold   h: help   q: end";
  if (!filter_.empty()) text = "rows with '" + filter_ + "' (Escape: all)   " + text;
  return text;
}

std::vector<Line> View::Draw(const Facts& facts, size_t rows, size_t columns) {
  std::vector<Line> lines = Status(facts, columns);
  if (!facts.message.empty()) lines.push_back({EscapeForTerminal(facts.message), Style::kBold});
  const size_t room = rows > lines.size() + 1 ? rows - lines.size() - 1 : 1;
  if (page_ == Page::kTable) DrawTable(room, columns, &lines);
  else DrawText(room, &lines);
  lines.resize(rows > 0 ? rows - 1 : 0);
  lines.push_back({Footer(), Style::kReverse});
  return lines;
}

}  // namespace brink::top
