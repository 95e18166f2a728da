// The tables of `brink report`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/program.h"
#include "report/table.h"

namespace brink::report {

struct TableFilter {
  std::vector<std::string> objects;  // short name or path of either end; empty: all
  std::vector<std::string> symbols;  // part of the function's name of either end; empty: all

  bool Accepts(Program& program, const Location& a, const Location& b) const;
};

struct TableKind {
  const char* name;
  const char* help;          // one line
  const char* default_sort;
  const char* share_column;  // for --percent-limit; nullptr: none
  Table (*make)(Program& program, const TableFilter& filter);
};

// branches edges functions calls ranges blocks loops mispredict paths stops lines containers.
std::span<const TableKind> AllTables();
// Error lists the names.
StatusOr<const TableKind*> FindTable(std::string_view name);

Table BranchTable(Program& program, const TableFilter& filter);
Table EdgeTable(Program& program, const TableFilter& filter);
Table FunctionTable(Program& program, const TableFilter& filter);
Table CallTable(Program& program, const TableFilter& filter);
Table RangeTable(Program& program, const TableFilter& filter);
Table BlockTable(Program& program, const TableFilter& filter);
Table LoopTable(Program& program, const TableFilter& filter);
Table MispredictTable(Program& program, const TableFilter& filter);
Table PathTable(Program& program, const TableFilter& filter);
Table StopTable(Program& program, const TableFilter& filter);
Table LineTable(Program& program, const TableFilter& filter);
Table ContainerTable(Program& program, const TableFilter& filter);

}  // namespace brink::report
