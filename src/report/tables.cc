#include "report/tables.h"

#include <absl/strings/str_format.h>

#include "base/stop.h"
#include "base/strings.h"
#include "report/blocks.h"
#include "report/quality.h"

namespace brink::report {
namespace {

Cell Mean(uint64_t sum, uint64_t count) { return Ratio(sum, count); }

Cell TextOrUnknown(std::string text) {
  if (text.empty()) return Unknown();
  return text;
}

Cell AddressOf(Program& program, const Location& location) {
  auto vaddr = program.symbolizer->VaddrOf(location);
  return vaddr ? Cell(*vaddr) : Cell(location.offset);
}

bool MatchesObject(const symbol::Object& object, const std::string& wanted) {
  return object.ShortName() == wanted || object.path == wanted;
}

std::string KindText(Kind kind) { return std::string(KindName(kind)); }

Cell KindCell(Kind kind) { return kind == Kind::kUnknown ? Unknown() : Cell(KindText(kind)); }

// Sums of branches between two functions.
struct EdgeSum {
  uint64_t count = 0, mispredicted = 0, known = 0, cycles = 0, cycle_count = 0;
  void Add(const BranchStat& branch) {
    count += branch.count;
    mispredicted += branch.mispredicted;
    known += branch.known();
    cycles += branch.cycles;
    cycle_count += branch.cycle_count;
  }
};

constexpr TableKind kTables[] = {
    {"branches", "every branch from -> to: count, misprediction, cycles", "count,-from_address,-to_address", "share", BranchTable},
    {"edges", "branches summed by function -> function", "count,from_symbol,to_symbol", "share", EdgeTable},
    {"functions", "functions by branches, samples and cycles", "branches,function", "share", FunctionTable},
    {"lines", "source lines by the branches they hold", "count,line", "share", LineTable},
    {"calls", "targets of indirect calls and jumps with their shares", "site_count,site,count", "share", CallTable},
    {"ranges", "straight code between two taken branches", "count,-address", "share", RangeTable},
    {"blocks", "pieces of code by how often they ran, with cycles", "count,-address", "share", BlockTable},
    {"loops", "loops with trip counts", "iterations,-head_address,-latch_address", "share", LoopTable},
    {"mispredict", "branches by what their mispredictions cost", "loss_cycles,mispredicted,-cumulative", "share", MispredictTable},
    {"paths", "hottest sequences of branches", "count,path", "share", PathTable},
    {"stops", "why stacks ended (walk, hop, step) and how deep they are", "samples,stop", "share", StopTable},
    {"containers", "containers, units and other cgroups by their samples (record --all-cgroups)", "samples,cgroup", "share", ContainerTable},
};

}  // namespace

bool TableFilter::Accepts(Program& program, const Location& a, const Location& b) const {
  if (!objects.empty()) {
    bool any = false;
    for (const std::string& wanted : objects) any = any || MatchesObject(program.objects[a.object], wanted) || MatchesObject(program.objects[b.object], wanted);
    if (!any) return false;
  }
  if (symbols.empty()) return true;
  const symbol::Function& first = (*program.symbolizer)[program.FunctionAt(a)];
  const symbol::Function& second = (*program.symbolizer)[program.FunctionAt(b)];
  for (const std::string& wanted : symbols) {
    if (first.name.find(wanted) != std::string::npos || second.name.find(wanted) != std::string::npos) return true;
  }
  return false;
}

std::span<const TableKind> AllTables() { return kTables; }

StatusOr<const TableKind*> FindTable(std::string_view name) {
  std::vector<std::string> names;
  std::string all;
  for (const TableKind& kind : kTables) {
    if (name == kind.name) return &kind;
    names.emplace_back(kind.name);
    all += (all.empty() ? "" : " ") + names.back();
  }
  auto nearest = NearestNames(name, names, 1);
  return InvalidArgument("no table '" + EscapeForTerminal(name) + "'" + (nearest.empty() ? "" : "; did you mean '" + nearest[0] + "'?") + " (tables: " + all + ")");
}

Table BranchTable(Program& program, const TableFilter& filter) {
  Table table{.name = "branches", .title = "Branches"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount},
                   {"mispredict_rate", "MISPRED", Format::kPercent}, {"mean_cycles", "CYCLES", Format::kNumber},
                   {"kind", "KIND"}, {"from", "FROM"}, {"to", "TO"}, {"from_line", "LINE"},
                   {"to_line", "TO LINE", Format::kText, false}, {"from_symbol", "FROM SYMBOL", Format::kText, false},
                   {"to_symbol", "TO SYMBOL", Format::kText, false}, {"from_object", "FROM OBJECT", Format::kText, false},
                   {"to_object", "TO OBJECT", Format::kText, false}, {"from_address", "FROM ADDRESS", Format::kAddress, false},
                   {"to_address", "TO ADDRESS", Format::kAddress, false}, {"mispredicted", "MISPREDICTED", Format::kCount, false},
                   {"predicted", "PREDICTED", Format::kCount, false}};
  symbol::Symbolizer& names = *program.symbolizer;
  for (const BranchStat& branch : program.aggregate.branches) {
    if (!filter.Accepts(program, branch.from, branch.to)) continue;
    bool known = branch.known() > 0;
    table.rows.push_back({Ratio(branch.count, program.aggregate.branch_count), branch.count, Ratio(branch.mispredicted, branch.known()),
                          Mean(branch.cycles, branch.cycle_count), KindCell(branch.kind), program.NameAt(branch.from),
                          program.NameAt(branch.to), TextOrUnknown(names.LineAt(branch.from)), TextOrUnknown(names.LineAt(branch.to)),
                          names[names.FunctionAt(branch.from)].name, names[names.FunctionAt(branch.to)].name,
                          program.ObjectName(branch.from), program.ObjectName(branch.to), AddressOf(program, branch.from),
                          AddressOf(program, branch.to), known ? Cell(branch.mispredicted) : Unknown(),
                          known ? Cell(branch.predicted) : Unknown()});
  }
  return table;
}

Table EdgeTable(Program& program, const TableFilter& filter) {
  Table table{.name = "edges", .title = "Branches between functions"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount},
                   {"mispredict_rate", "MISPRED", Format::kPercent}, {"mean_cycles", "CYCLES", Format::kNumber},
                   {"from_symbol", "FROM SYMBOL"}, {"to_symbol", "TO SYMBOL"}, {"from_object", "FROM OBJECT"}, {"to_object", "TO OBJECT"}};
  absl::flat_hash_map<std::pair<FunctionId, FunctionId>, EdgeSum> sums;
  for (const BranchStat& branch : program.aggregate.branches) {
    if (filter.Accepts(program, branch.from, branch.to)) sums[{program.FunctionAt(branch.from), program.FunctionAt(branch.to)}].Add(branch);
  }
  symbol::Symbolizer& names = *program.symbolizer;
  for (const auto& [edge, sum] : sums) {
    const symbol::Function &from = names[edge.first], &to = names[edge.second];
    table.rows.push_back({Ratio(sum.count, program.aggregate.branch_count), sum.count, Ratio(sum.mispredicted, sum.known),
                          Mean(sum.cycles, sum.cycle_count), from.name, to.name, program.objects[from.object].ShortName(),
                          program.objects[to.object].ShortName()});
  }
  return table;
}

Table FunctionTable(Program& program, const TableFilter& filter) {
  Table table{.name = "functions", .title = "Functions"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"branches", "BRANCHES", Format::kCount},
                   {"samples", "SAMPLES", Format::kCount}, {"cycles_share", "CYCLES", Format::kPercent},
                   {"mispredict_rate", "MISPRED", Format::kPercent}, {"entries", "ENTERED", Format::kCount},
                   {"function", "FUNCTION"}, {"object", "OBJECT"}, {"origin", "NAME FROM", Format::kText, false},
                   {"unresolved", "WHY NO NAME", Format::kText, false}, {"address", "ADDRESS", Format::kAddress, false},
                   {"mangled", "MANGLED", Format::kText, false}};
  struct Sum : EdgeSum {
    uint64_t samples = 0, entries = 0;
  };
  absl::flat_hash_map<FunctionId, Sum> sums;
  symbol::Symbolizer& names = *program.symbolizer;
  uint64_t all_cycles = 0;
  for (const BranchStat& branch : program.aggregate.branches) {
    FunctionId from = program.FunctionAt(branch.from), to = program.FunctionAt(branch.to);
    all_cycles += branch.cycles;
    if (filter.Accepts(program, branch.from, branch.from)) sums[from].Add(branch);
    bool entry = names[to].resolved() && names.VaddrOf(branch.to) == names[to].start && from != to;
    if (entry && filter.Accepts(program, branch.to, branch.to)) sums[to].entries += branch.count;
  }
  for (const auto& [ip, count] : program.aggregate.ips) {
    if (filter.Accepts(program, ip, ip)) sums[program.FunctionAt(ip)].samples += count;
  }
  uint64_t unresolved = 0;
  for (const auto& [id, sum] : sums) {
    const symbol::Function& function = names[id];
    if (!function.resolved()) unresolved += sum.count;
    table.rows.push_back({Ratio(sum.count, program.aggregate.branch_count), sum.count, sum.samples,
                          sum.cycle_count ? Ratio(sum.cycles, all_cycles) : Unknown(), Ratio(sum.mispredicted, sum.known), sum.entries,
                          function.name, program.objects[function.object].ShortName(), std::string(symbol::NameOriginName(function.origin)),
                          TextOrUnknown(std::string(symbol::UnresolvedName(function.reason))),
                          function.resolved() ? Cell(function.start) : Unknown(), TextOrUnknown(function.mangled)});
  }
  if (unresolved > 0) {
    table.notes.push_back(absl::StrFormat("%.1f %% of the branches have no name; --fields function,object,unresolved says why",
                                          100.0 * static_cast<double>(unresolved) / static_cast<double>(std::max<uint64_t>(program.aggregate.branch_count, 1))));
  }
  return table;
}

Table LineTable(Program& program, const TableFilter& filter) {
  Table table{.name = "lines", .title = "Source lines"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"count", "COUNT", Format::kCount}, {"mispredict_rate", "MISPRED", Format::kPercent},
                   {"mispredicted", "MISSES", Format::kCount}, {"mean_cycles", "CYCLES", Format::kNumber}, {"line", "LINE"}, {"function", "FUNCTION"}};
  std::map<std::pair<std::string, std::string>, EdgeSum> sums;
  uint64_t without = 0;
  for (const BranchStat& branch : program.aggregate.branches) {
    if (!filter.Accepts(program, branch.from, branch.from)) continue;
    auto frames = program.symbolizer->FramesAt(branch.from);
    if (frames.empty() || frames[0].file.empty() || frames[0].line == 0) {
      without += branch.count;
      continue;
    }
    std::string name = frames[0].function.empty() ? (*program.symbolizer)[program.FunctionAt(branch.from)].name : frames[0].function;
    sums[{frames[0].file.substr(frames[0].file.rfind('/') + 1) + ":" + std::to_string(frames[0].line), name}].Add(branch);
  }
  for (const auto& [key, sum] : sums) {
    table.rows.push_back({Ratio(sum.count, program.aggregate.branch_count), sum.count, Ratio(sum.mispredicted, sum.known),
                          sum.known ? Cell(sum.mispredicted) : Unknown(), Mean(sum.cycles, sum.cycle_count), key.first, key.second});
  }
  if (without > 0) table.notes.push_back(absl::StrFormat("%d branches are in code without line information", without));
  return table;
}

Table CallTable(Program& program, const TableFilter& filter) {
  Table table{.name = "calls", .title = "Targets of indirect calls and jumps"};
  table.columns = {{"site", "SITE"}, {"kind", "KIND"}, {"site_count", "SITE COUNT", Format::kCount}, {"share", "SHARE", Format::kPercent},
                   {"count", "COUNT", Format::kCount}, {"mispredict_rate", "MISPRED", Format::kPercent}, {"target", "TARGET"},
                   {"line", "LINE"}, {"targets", "TARGETS", Format::kCount, false}, {"site_address", "SITE ADDRESS", Format::kAddress, false},
                   {"target_address", "TARGET ADDRESS", Format::kAddress, false}};
  struct Site {
    uint64_t count = 0, targets = 0;
  };
  absl::flat_hash_map<Location, Site> sites;
  auto indirect = [](const BranchStat& branch) { return branch.kind == Kind::kIndCall || branch.kind == Kind::kIndJump; };
  for (const BranchStat& branch : program.aggregate.branches) {
    if (!indirect(branch)) continue;
    sites[branch.from].count += branch.count;
    ++sites[branch.from].targets;
  }
  for (const BranchStat& branch : program.aggregate.branches) {
    if (!indirect(branch) || !filter.Accepts(program, branch.from, branch.to)) continue;
    const Site& site = sites[branch.from];
    table.rows.push_back({program.NameAt(branch.from), KindText(branch.kind), site.count, Ratio(branch.count, site.count), branch.count,
                          Ratio(branch.mispredicted, branch.known()), program.NameAt(branch.to),
                          TextOrUnknown(program.symbolizer->LineAt(branch.from)), site.targets, AddressOf(program, branch.from),
                          AddressOf(program, branch.to)});
  }
  return table;
}

Table StopTable(Program& program, const TableFilter&) {
  Table table{.name = "stops", .title = "Why stacks ended"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"samples", "SAMPLES", Format::kCount}, {"stop", "STOP"}, {"meaning", "MEANING"}};
  uint64_t noted = 0;
  for (auto [stop, count] : program.aggregate.stops) noted += count;
  for (auto [stop, count] : program.aggregate.stops) {
    table.rows.push_back({Ratio(count, noted), count, std::string(StopReasonName(stop)), std::string(StopReasonText(stop))});
  }
  DepthStats depth = DepthOf(program.aggregate);
  table.notes.push_back(absl::StrFormat("entries per stack: mean %.1f, median %d, 90 %% at most %d, deepest %d; %d of %d samples without any", depth.mean,
                                        depth.median, depth.p90, depth.max, program.aggregate.empty_samples, program.aggregate.samples));
  if (noted == 0) table.notes.push_back("this recording states no stop reasons (hardware stacks have none)");
  return table;
}

}  // namespace brink::report
