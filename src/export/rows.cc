#include "export/rows.h"

#include <algorithm>

#include "base/strings.h"

namespace brink::exporter {
namespace {

using report::Cell;
using report::Format;
using symbol::Location;

using Row = std::vector<Cell>;

// Empty text is unknown.
void AddText(Row& row, std::string text) {
  row.emplace_back();
  if (!text.empty()) row.back().emplace<std::string>(std::move(text));
}

void AddNumber(Row& row, uint64_t value, bool known = true) {
  row.emplace_back();
  if (known) row.back().emplace<uint64_t>(value);
}

class RowMaker {
 public:
  explicit RowMaker(report::Program& program) : program_(program) {}

  Row Branch(const report::BranchStat& b) {
    Row row = Ends("branch", b.from, b.to);
    AddText(row, b.kind == Kind::kUnknown ? "" : std::string(KindName(b.kind)));
    AddNumber(row, b.count);
    AddNumber(row, b.mispredicted, b.known() != 0);
    AddNumber(row, b.predicted, b.known() != 0);
    AddNumber(row, b.cycles, b.cycle_count != 0);
    AddNumber(row, b.cycle_count, b.cycle_count != 0);
    return row;
  }
  Row Range(const report::RangeStat& r) {
    Row row = Ends("range", r.start, {r.start.object, r.end});
    AddNumber(row, 0, false);
    AddNumber(row, r.count);
    AddNumber(row, 0, false);
    AddNumber(row, 0, false);
    AddNumber(row, r.cycles, r.cycle_count != 0);
    AddNumber(row, r.cycle_count, r.cycle_count != 0);
    return row;
  }

 private:
  Row Ends(const char* what, const Location& from, const Location& to) {
    Row row;
    AddText(row, what);
    for (const Location& end : {from, to}) {
      const symbol::Object& object = program_.objects[end.object];
      AddText(row, object.path);
      AddText(row, HexEncode(object.build_id));
      AddNumber(row, end.offset);
      auto vaddr = program_.symbolizer->VaddrOf(end);
      AddNumber(row, vaddr.value_or(0), vaddr.has_value());
      const symbol::Function& function = (*program_.symbolizer)[program_.FunctionAt(end)];
      AddText(row, function.resolved() ? function.name : "");
    }
    return row;
  }

  report::Program& program_;
};

}  // namespace

report::Table Rows(report::Program& program) {
  report::Table table{.name = "counts", .title = "Counts", .family = "export"};
  table.columns = {{"row", "ROW"}};
  for (const char* end : {"from", "to"}) {
    const std::string name = end;
    table.columns.push_back({name + "_object", ""});
    table.columns.push_back({name + "_build_id", ""});
    table.columns.push_back({name + "_offset", "", Format::kAddress});
    table.columns.push_back({name, "", Format::kAddress});
    table.columns.push_back({name + "_function", ""});
  }
  table.columns.push_back({"kind", ""});
  for (const char* count : {"count", "mispredicted", "predicted", "cycles", "cycle_count"}) table.columns.push_back({count, "", Format::kCount});
  RowMaker make(program);
  for (const report::BranchStat& branch : program.aggregate.branches) table.rows.push_back(make.Branch(branch));
  const auto ranges_from = static_cast<std::ptrdiff_t>(table.rows.size());
  for (const report::RangeStat& range : program.aggregate.ranges) table.rows.push_back(make.Range(range));
  const auto count_column = static_cast<size_t>(table.ColumnIndex("count"));
  auto more = [count_column](const auto& a, const auto& b) { return std::get<uint64_t>(a[count_column]) > std::get<uint64_t>(b[count_column]); };
  std::stable_sort(table.rows.begin(), table.rows.begin() + ranges_from, more);
  std::stable_sort(table.rows.begin() + ranges_from, table.rows.end(), more);
  return table;
}

}  // namespace brink::exporter
