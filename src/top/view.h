// What is on the screen of `brink top`, and what keys do to it. Pure: asks a Model for tables, gives lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/tables.h"
#include "top/keys.h"
#include "top/terminal.h"

namespace brink::top {

// State of the recording for the first line.
struct Facts {
  std::string source;          // "all CPUs", "-p 1234", "brink.data"
  uint64_t samples = 0, branches = 0, lost = 0;
  double samples_per_second = 0;
  bool ended = false;          // no more will come
  std::string message;         // why it ended, or what went wrong; "" nothing to say
};

// Where the view gets what it shows. All of one moment, until the owner takes the next snapshot.
class Model {
 public:
  virtual ~Model() = default;
  virtual report::Table TableOf(const report::TableKind& kind) = 0;
  // Source and assembly of the hottest function of that name, as lines; an error says why not.
  virtual StatusOr<std::vector<std::string>> Annotate(const std::string& function) = 0;
};

// What the view wants of its owner after a key.
struct Wishes {
  bool quit = false;
  bool reset = false;    // counts begin anew
  bool redraw = false;
};

class View {
 public:
  explicit View(Model* model) : model_(*model) {}

  Wishes OnKey(const Key& key);
  // The model has a new snapshot.
  void OnSnapshot() { table_.reset(); }
  std::vector<Line> Draw(const Facts& facts, size_t rows, size_t columns);

  bool paused() const { return paused_; }
  // Counts of the last interval only, instead of since the start.
  bool per_interval() const { return per_interval_; }

 private:
  enum class Page { kTable, kFunction, kHelp };

  void OnTableKey(const Key& key, Wishes* wishes);
  void OnChar(char c, Wishes* wishes);
  void OnTextKey(const Key& key);
  void OnFilterKey(const Key& key);
  void Move(int64_t by);
  void ChooseTable(size_t index);
  void ChangeSort(int by);
  void OpenFunction();
  const report::Table& CurrentTable();
  std::vector<Line> Status(const Facts& facts, size_t columns) const;
  void DrawTable(size_t room, size_t columns, std::vector<Line>* lines);
  void DrawText(size_t room, std::vector<Line>* lines);
  std::string Footer() const;

  Model& model_;
  Page page_ = Page::kTable;
  size_t kind_ = 0;
  std::string sort_column_;     // "": the table's own order
  bool reversed_ = false;
  std::string filter_;
  bool typing_ = false;         // the filter
  size_t selected_ = 0, first_ = 0, page_rows_ = 10;
  bool paused_ = false, per_interval_ = false;
  std::vector<std::string> text_;  // of the other pages
  size_t text_first_ = 0;
  std::string note_;               // one line, until the next key
  std::optional<report::Table> table_;
};

// Tables that can be watched, in the order of the keys 1, 2...
const std::vector<const report::TableKind*>& LiveTables();

}  // namespace brink::top
