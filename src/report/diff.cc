#include "report/diff.h"

#include <array>
#include <cmath>
#include <map>
#include <optional>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "report/noise.h"
#include "report/summary.h"

namespace brink::report {
namespace {

struct Sum {
  uint64_t count = 0, mispredicted = 0, known = 0, cycles = 0, cycle_count = 0;
  std::vector<uint64_t> parts;  // count in each part of the side
};

struct Row {
  std::vector<std::string> labels;
  std::array<Sum, 2> sides;
};

// What identifies a branch in a table, and how it is shown.
struct Key {
  std::string id;
  std::vector<std::string> labels;
};
using KeyOf = Key (*)(Program& program, const BranchStat& branch);

// Two builds of a program differ in which copies the optimiser made of a function: these are one.
std::string WithoutCloneSuffix(std::string name) {
  constexpr std::string_view kSuffixes[] = {".constprop.", ".isra.", ".lto_priv.", ".llvm."};
  for (std::string_view suffix : kSuffixes) {
    const size_t at = name.find(suffix);
    if (at == std::string::npos || at == 0) continue;
    const size_t end = name.find_first_not_of("0123456789", at + suffix.size());
    name.erase(at, end == std::string::npos ? std::string::npos : end - at);
  }
  return name;
}

std::string FunctionName(Program& program, const Location& location) {
  return WithoutCloneSuffix((*program.symbolizer)[program.FunctionAt(location)].name);
}

// Entries of the stack that an entry is in, on average: what comes together.
double StackSize(const Aggregate& aggregate) {
  double entries = 0, squares = 0;
  for (auto [depth, samples] : aggregate.depth) {
    entries += static_cast<double>(depth) * static_cast<double>(samples);
    squares += static_cast<double>(depth) * static_cast<double>(depth) * static_cast<double>(samples);
  }
  return entries > 0 ? squares / entries : 1;
}

// Offsets of code without a name say something within one build only.
std::string PlaceId(Program& program, const Location& location) {
  const bool named = (*program.symbolizer)[program.FunctionAt(location)].resolved();
  const symbol::Object& object = program.objects[location.object];
  return (named ? std::string() : HexEncode(object.build_id)) + "\t" + object.ShortName() + "\t" + program.NameAt(location);
}

Key BranchKey(Program& program, const BranchStat& branch) {
  return {PlaceId(program, branch.from) + "\n" + PlaceId(program, branch.to),
          {program.NameAt(branch.from), program.NameAt(branch.to), program.ObjectName(branch.from)}};
}

Key FunctionKey(Program& program, const BranchStat& branch) {
  std::vector<std::string> labels = {FunctionName(program, branch.from), program.ObjectName(branch.from)};
  return {labels[0] + "\n" + labels[1], labels};
}

Key EdgeKey(Program& program, const BranchStat& branch) {
  std::vector<std::string> labels = {FunctionName(program, branch.from), FunctionName(program, branch.to), program.ObjectName(branch.from), program.ObjectName(branch.to)};
  return {labels[0] + "\n" + labels[1] + "\n" + labels[2] + "\n" + labels[3], labels};
}

Key LineKey(Program& program, const BranchStat& branch) {
  std::string line = program.symbolizer->LineAt(branch.from);
  if (line.empty()) line = "?";
  std::vector<std::string> labels = {line, FunctionName(program, branch.from)};
  return {labels[0] + "\n" + labels[1], labels};
}

struct Comparison {
  DiffTableKind table;
  const char* title;
  KeyOf key;
  std::vector<Column> columns;  // of the labels
};

const std::vector<Comparison>& Kinds() {
  static const std::vector<Comparison> kinds = {
      {{"functions", "functions by the branches that start in them"}, "Functions", FunctionKey, {{"function", "FUNCTION"}, {"object", "OBJECT"}}},
      {{"branches", "every branch from -> to"}, "Branches", BranchKey, {{"from", "FROM"}, {"to", "TO"}, {"object", "OBJECT", Format::kText, false}}},
      {{"edges", "branches summed by function -> function"}, "Branches between functions", EdgeKey,
       {{"from_symbol", "FROM SYMBOL"}, {"to_symbol", "TO SYMBOL"}, {"from_object", "FROM OBJECT", Format::kText, false}, {"to_object", "TO OBJECT", Format::kText, false}}},
      {{"lines", "source lines by the branches they hold"}, "Source lines", LineKey, {{"line", "LINE"}, {"function", "FUNCTION"}}},
  };
  return kinds;
}

// Rows by what identifies them, filled side by side.
class Collector {
 public:
  Collector(const Comparison& kind, const TableFilter& filter) : kind_(kind), filter_(filter) {}

  void Add(size_t side, Programs& programs) {
    const bool halves = programs.size() == 1;
    std::vector<uint64_t>& totals = totals_[side];
    totals.assign(halves ? 2 : programs.size(), 0);
    if (halves) most_dispersion_[side] = StackSize(programs[0]->aggregate);
    for (size_t i = 0; i < programs.size(); ++i) {
      Program& program = *programs[i];
      for (const BranchStat& branch : program.aggregate.branches) {
        const size_t first = halves ? 0 : i;
        const uint64_t odd = halves ? branch.odd : 0;
        totals[first] += branch.count - odd;
        if (halves) totals[1] += odd;
        if (!filter_.Accepts(program, branch.from, branch.to)) continue;
        Key key = kind_.key(program, branch);
        Row& row = rows_[key.id];
        if (row.labels.empty()) row.labels = std::move(key.labels);
        Sum& sum = row.sides[side];
        sum.parts.resize(totals.size());
        sum.parts[first] += branch.count - odd;
        if (halves) sum.parts[1] += odd;
        sum.count += branch.count;
        sum.mispredicted += branch.mispredicted;
        sum.known += branch.known();
        sum.cycles += branch.cycles;
        sum.cycle_count += branch.cycle_count;
      }
    }
  }

  std::map<std::string, Row>& rows() { return rows_; }
  NoiseModel Noise(size_t side) {
    NoiseModel model(totals_[side], most_dispersion_[side]);
    for (auto& [id, row] : rows_) {
      row.sides[side].parts.resize(totals_[side].size());
      model.Observe(row.sides[side].parts);
    }
    return model;
  }
  uint64_t total(size_t side) const {
    uint64_t sum = 0;
    for (uint64_t part : totals_[side]) sum += part;
    return sum;
  }

 private:
  const Comparison& kind_;
  const TableFilter& filter_;
  std::map<std::string, Row> rows_;
  std::array<std::vector<uint64_t>, 2> totals_;
  std::array<double, 2> most_dispersion_ = {1e9, 1e9};
};

Cell Difference(const Cell& from, const Cell& to) {
  if (!std::holds_alternative<double>(from) || !std::holds_alternative<double>(to)) return Unknown();
  return std::get<double>(to) - std::get<double>(from);
}

// 1 noise, 0 more than that, unknown where a side knows nothing.
Cell Verdict(const Cell& from, double from_error, const Cell& to, double to_error, double sigmas) {
  if (!std::holds_alternative<double>(from) || !std::holds_alternative<double>(to)) return Unknown();
  return WithinNoise(std::get<double>(from), from_error, std::get<double>(to), to_error, sigmas) ? Cell(uint64_t{1}) : Cell(uint64_t{0});
}

double ValueOr(const Cell& cell, double otherwise) { return std::holds_alternative<double>(cell) ? std::get<double>(cell) : otherwise; }

}  // namespace

std::span<const DiffTableKind> DiffTables() {
  static const std::vector<DiffTableKind> tables = [] {
    std::vector<DiffTableKind> out;
    for (const Comparison& kind : Kinds()) out.push_back(kind.table);
    return out;
  }();
  return tables;
}

StatusOr<Diff> MakeDiff(std::string_view name, Programs& old_side, Programs& new_side, const DiffOptions& options) {
  const Comparison* kind = nullptr;
  std::string all;
  for (const Comparison& candidate : Kinds()) {
    if (name == candidate.table.name) kind = &candidate;
    all += (all.empty() ? "" : " ") + std::string(candidate.table.name);
  }
  if (!kind) return InvalidArgument("no table '" + EscapeForTerminal(name) + "' of differences (tables: " + all + ")");
  Collector collector(*kind, options.filter);
  collector.Add(0, old_side);
  collector.Add(1, new_side);
  const NoiseModel old_noise = collector.Noise(0), new_noise = collector.Noise(1);

  Diff diff{.old_dispersion = old_noise.dispersion(), .new_dispersion = new_noise.dispersion()};
  Table& table = diff.table;
  table.family = "diff";
  table.name = kind->table.name;
  table.title = kind->title;
  table.columns = {{"delta_share", "CHANGE", Format::kPoints}, {"noise", "", Format::kNoise}, {"old_share", "OLD", Format::kPercent}, {"new_share", "NEW", Format::kPercent},
                   {"old_count", "OLD COUNT", Format::kCount}, {"new_count", "NEW COUNT", Format::kCount},
                   {"old_mispredict_rate", "OLD MISS", Format::kPercent}, {"new_mispredict_rate", "NEW MISS", Format::kPercent}, {"mispredict_noise", "", Format::kNoise},
                   {"old_mean_cycles", "OLD CYC", Format::kNumber}, {"new_mean_cycles", "NEW CYC", Format::kNumber}, {"cycles_noise", "", Format::kNoise}};
  table.columns.insert(table.columns.end(), kind->columns.begin(), kind->columns.end());
  table.columns.insert(table.columns.end(), {{"size", "SIZE", Format::kPercent, false}, {"delta_mispredict_rate", "MISS CHANGE", Format::kPoints, false},
                                             {"delta_mean_cycles", "CYC CHANGE", Format::kNumber, false}, {"share_error", "ERROR", Format::kPercent, false}});
  for (auto& [id, row] : collector.rows()) {
    const Sum &before = row.sides[0], &after = row.sides[1];
    const Cell old_share = Ratio(before.count, collector.total(0)), new_share = Ratio(after.count, collector.total(1));
    const double old_error = old_noise.ShareError(before.parts), new_error = new_noise.ShareError(after.parts);
    const Cell noise = Verdict(old_share, old_error, new_share, new_error, options.sigmas);
    const Cell old_rate = Ratio(before.mispredicted, before.known), new_rate = Ratio(after.mispredicted, after.known);
    const Cell old_cycles = Ratio(before.cycles, before.cycle_count), new_cycles = Ratio(after.cycles, after.cycle_count);
    const Cell delta = Difference(old_share, new_share);
    const double size = std::abs(ValueOr(delta, 0));
    const bool beyond = noise == Cell(uint64_t{0});
    if (beyond) {
      ++diff.changed;
      diff.largest = std::max(diff.largest, size);
    }
    std::vector<Cell> cells = {
        delta, noise, old_share, new_share, before.count, after.count, old_rate, new_rate,
        Verdict(old_rate, old_noise.RateError(before.mispredicted, before.known), new_rate, new_noise.RateError(after.mispredicted, after.known), options.sigmas),
        old_cycles, new_cycles,
        Verdict(old_cycles, old_noise.MeanError(ValueOr(old_cycles, 0), before.cycle_count), new_cycles, new_noise.MeanError(ValueOr(new_cycles, 0), after.cycle_count), options.sigmas)};
    for (std::string& label : row.labels) cells.emplace_back(std::move(label));
    cells.insert(cells.end(), {size, Difference(old_rate, new_rate), Difference(old_cycles, new_cycles), std::hypot(old_error, new_error)});
    table.rows.push_back(std::move(cells));
  }
  table.notes.push_back(absl::StrFormat("%d of %d rows changed by more than the noise (%.3g standard errors; entries scatter %.1f and %.1f times as much as independent ones)",
                                        diff.changed, table.rows.size(), options.sigmas, diff.old_dispersion, diff.new_dispersion));
  return diff;
}

DiffSummary Summarise(const Programs& old_side, const Programs& new_side) {
  DiffSummary summary{.old_recordings = old_side.size(), .new_recordings = new_side.size()};
  for (const auto& program : old_side) {
    summary.old_samples += program->aggregate.samples;
    summary.old_branches += program->aggregate.branch_count;
  }
  for (const auto& program : new_side) {
    summary.new_samples += program->aggregate.samples;
    summary.new_branches += program->aggregate.branch_count;
  }
  return summary;
}

std::string DiffSummaryText(const Programs& old_side, const Programs& new_side) {
  std::string out;
  auto add = [&](const char* side, const Programs& programs) {
    for (const auto& program : programs) {
      out += absl::StrFormat("# %s: %s: %d samples, %d branches, %d different\n", side, EscapeForTerminal(program->facts.path), program->aggregate.samples,
                             program->aggregate.branch_count, program->aggregate.branches.size());
    }
  };
  add("old", old_side);
  add("new", new_side);
  return out;
}

std::string DiffSummaryJson(const Programs& old_side, const Programs& new_side, const Diff& first, double sigmas) {
  auto files = [](const Programs& programs) {
    std::string list;
    for (const auto& program : programs) list += (list.empty() ? "" : ",") + JsonString(program->facts.path);
    return "[" + list + "]";
  };
  auto number = [](double value) { return JsonValue(Cell(value), Format::kNumber); };
  const DiffSummary sum = Summarise(old_side, new_side);
  return "{\"schema\":\"brink.diff.summary.v1\",\"old\":" + files(old_side) + ",\"new\":" + files(new_side) +
         absl::StrFormat(",\"old_samples\":%d,\"new_samples\":%d,\"old_branches\":%d,\"new_branches\":%d", sum.old_samples, sum.new_samples, sum.old_branches, sum.new_branches) +
         ",\"sigmas\":" + number(sigmas) + ",\"old_dispersion\":" + number(first.old_dispersion) + ",\"new_dispersion\":" + number(first.new_dispersion) +
         absl::StrFormat(",\"rows\":%d,\"changed\":%d", first.table.rows.size(), first.changed) + ",\"largest_change\":" + number(first.largest) + "}\n";
}

}  // namespace brink::report
