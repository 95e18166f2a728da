// Branches and straight ranges as one table: for JSON lines, spreadsheets and databases.
#pragma once

#include "report/program.h"
#include "report/table.h"

namespace brink::exporter {

// A row a branch (from, to) and a row a range (from first to last instruction), by file and build id, most executed first.
report::Table Rows(report::Program& program);

}  // namespace brink::exporter
