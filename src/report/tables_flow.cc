// Tables of code between branches: ranges, blocks, loops, mispredictions, paths.
#include <absl/strings/str_format.h>

#include "report/blocks.h"
#include "report/mispredict.h"
#include "report/tables.h"

namespace brink::report {
namespace {

Cell TextOrUnknown(std::string text) {
  if (text.empty()) return Unknown();
  return text;
}

Cell AddressOf(Program& program, const Location& location) {
  auto vaddr = program.symbolizer->VaddrOf(location);
  return vaddr ? Cell(*vaddr) : Cell(location.offset);
}

// Said where a table needs straight code and the recording has none.
void NoteIfNotContiguous(const Program& program, Table* table) {
  if (program.aggregate.any_contiguous || program.aggregate.samples == 0) return;
  table->notes.push_back("this recording does not hold every taken branch (filtered, or call-stack mode), so nothing is known about the code between two entries; record with -j any");
}

}  // namespace

Table RangeTable(Program& program, const TableFilter& filter) {
  Table table{.name = "ranges", .title = "Straight code"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount}, {"mean_cycles", "CYCLES", Format::kNumber},
                   {"bytes", "BYTES", Format::kCount}, {"start", "START"}, {"end", "END"}, {"line", "LINE"},
                   {"object", "OBJECT", Format::kText, false}, {"address", "ADDRESS", Format::kAddress, false},
                   {"end_address", "END ADDRESS", Format::kAddress, false}};
  for (const RangeStat& range : program.aggregate.ranges) {
    Location end{range.start.object, range.end};
    if (!filter.Accepts(program, range.start, end)) continue;
    table.rows.push_back({Ratio(range.count, program.aggregate.range_count), range.count, Ratio(range.cycles, range.cycle_count),
                          range.end - range.start.offset, program.NameAt(range.start), program.NameAt(end),
                          TextOrUnknown(program.symbolizer->LineAt(range.start)), program.ObjectName(range.start),
                          AddressOf(program, range.start), AddressOf(program, end)});
  }
  NoteIfNotContiguous(program, &table);
  return table;
}

Table BlockTable(Program& program, const TableFilter& filter) {
  Table table{.name = "blocks", .title = "Blocks"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount}, {"cycles_share", "CYCLES", Format::kPercent},
                   {"bytes", "BYTES", Format::kCount}, {"start", "START"}, {"line", "LINE"}, {"object", "OBJECT", Format::kText, false},
                   {"address", "ADDRESS", Format::kAddress, false}, {"end_address", "END ADDRESS", Format::kAddress, false}};
  std::vector<BlockStat> blocks = CutBlocks(program.aggregate.ranges);
  uint64_t all = 0;
  double cycles = 0;
  for (const BlockStat& block : blocks) {
    all += block.count;
    cycles += block.cycles;
  }
  for (const BlockStat& block : blocks) {
    Location end{block.start.object, block.end};
    if (!filter.Accepts(program, block.start, end)) continue;
    Cell share = block.cycle_count && cycles > 0 ? Cell(block.cycles / cycles) : Unknown();
    table.rows.push_back({Ratio(block.count, all), block.count, share, block.end - block.start.offset + 1, program.NameAt(block.start),
                          TextOrUnknown(program.symbolizer->LineAt(block.start)), program.ObjectName(block.start),
                          AddressOf(program, block.start), AddressOf(program, end)});
  }
  NoteIfNotContiguous(program, &table);
  return table;
}

Table LoopTable(Program& program, const TableFilter& filter) {
  Table table{.name = "loops", .title = "Loops"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"iterations", "ITERATIONS", Format::kCount}, {"mean_trips", "TRIPS", Format::kNumber},
                   {"min_trips", "MIN", Format::kCount}, {"max_trips", "MAX", Format::kCount}, {"runs", "RUNS", Format::kCount},
                   {"cut_runs", "CUT", Format::kCount}, {"longest_cut", "AT LEAST", Format::kCount}, {"cycles_per_trip", "CYCLES", Format::kNumber},
                   {"head", "HEAD"}, {"line", "LINE"}, {"bytes", "BYTES", Format::kCount, false},
                   {"head_address", "HEAD ADDRESS", Format::kAddress, false}, {"latch_address", "LATCH ADDRESS", Format::kAddress, false}};
  for (const LoopStat& loop : program.loops) {
    Location latch{loop.head.object, loop.latch};
    if (!filter.Accepts(program, loop.head, latch)) continue;
    bool complete = loop.runs > 0;
    table.rows.push_back({Ratio(loop.taken, program.aggregate.branch_count), loop.taken, Ratio(loop.trips, loop.runs),
                          complete ? Cell(loop.min_trips) : Unknown(), complete ? Cell(loop.max_trips) : Unknown(), loop.runs,
                          loop.cut_runs, loop.cut_runs ? Cell(loop.longest_cut + 1) : Unknown(), Ratio(loop.cycles, loop.cycle_count),
                          program.NameAt(loop.head), TextOrUnknown(program.symbolizer->LineAt(loop.head)), loop.latch - loop.head.offset,
                          AddressOf(program, loop.head), AddressOf(program, latch)});
  }
  table.notes.push_back("TRIPS: mean of the runs seen from entry to exit (RUNS); AT LEAST: longest run that an end of the stack cut off (CUT)");
  NoteIfNotContiguous(program, &table);
  return table;
}

Table MispredictTable(Program& program, const TableFilter& filter) {
  Table table{.name = "mispredict", .title = "Mispredicted branches"};
  table.columns = {{"share", "OF ALL", Format::kPercent}, {"cumulative", "SUM", Format::kPercent}, {"mispredicted", "MISSES", Format::kCount},
                   {"mispredict_rate", "RATE", Format::kPercent}, {"cost_cycles", "COST", Format::kNumber},
                   {"loss_cycles", "LOSS", Format::kNumber}, {"taken_ratio", "TAKEN", Format::kPercent}, {"kind", "KIND"}, {"from", "BRANCH"}, {"line", "LINE"},
                   {"advice", "TRY"}, {"measured", "MEASURED", Format::kText, false}, {"from_address", "ADDRESS", Format::kAddress, false}};
  MispredictReport report = FindMispredictions(program);
  double sum = 0;
  for (const MispredictRow& row : report.rows) {
    sum += row.share;
    if (!filter.Accepts(program, row.from, row.from)) continue;
    table.rows.push_back({row.share, sum, row.mispredicted, Ratio(row.mispredicted, row.known), row.cost_cycles, row.loss_cycles,
                          row.taken_ratio ? Cell(*row.taken_ratio) : Unknown(), row.kind == Kind::kUnknown ? Unknown() : Cell(std::string(KindName(row.kind))),
                          program.NameAt(row.from), TextOrUnknown(program.symbolizer->LineAt(row.from)), row.advice,
                          std::string(row.cost_measured ? "yes" : "assumed"), AddressOf(program, row.from)});
  }
  table.notes = report.notes;
  return table;
}

Table PathTable(Program& program, const TableFilter& filter) {
  Table table{.name = "paths", .title = "Hottest paths"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount}, {"mean_cycles", "CYCLES", Format::kNumber}, {"path", "PATH (oldest first)"}};
  for (const PathStat& path : program.paths) {
    bool wanted = false;
    for (const auto& [from, to] : path.branches) wanted = wanted || filter.Accepts(program, from, to);
    if (!wanted) continue;
    std::string text;
    for (const auto& [from, to] : path.branches) text += (text.empty() ? "" : " | ") + program.NameAt(from) + " -> " + program.NameAt(to);
    table.rows.push_back({Ratio(path.count, program.path_windows), path.count, Ratio(path.cycles, path.cycle_count), text});
  }
  if (program.paths_dropped) table.notes.push_back(absl::StrFormat("%d rare paths were dropped to bound the memory", program.paths_dropped));
  NoteIfNotContiguous(program, &table);
  return table;
}

}  // namespace brink::report
