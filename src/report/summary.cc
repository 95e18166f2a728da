#include "report/summary.h"

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "report/table.h"

namespace brink::report {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + EscapeForTerminal(word);
  return out;
}

std::string Sources(const Aggregate& aggregate) {
  std::vector<std::string> names;
  for (auto [source, count] : aggregate.sources) {
    if (source != BRINK_SOURCE_NONE) names.emplace_back(SourceName(source));
  }
  return Join(names);
}

double Share(uint64_t part, uint64_t whole) { return whole ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0; }

std::string Strings(const std::vector<std::string>& list) {
  std::string out = "[";
  for (const std::string& text : list) out += (out.size() > 1 ? "," : "") + JsonString(text);
  return out + "]";
}

// Code made at run time that nobody has named: how much, and how it gets names.
std::string UnnamedText(const Program& program) {
  uint64_t unnamed = 0;
  for (const BranchStat& branch : program.aggregate.branches) {
    if (!program.symbolizer || program.objects[branch.from.object].kind != symbol::ObjectKind::kJit) continue;
    if (!(*program.symbolizer)[program.symbolizer->FunctionAt(branch.from)].resolved()) unnamed += branch.count;
  }
  double share = Share(unnamed, program.aggregate.branch_count);
  if (share < 5) return {};
  return absl::StrFormat("# %.1f %% of the branches are in code made at run time without names: start it with node --perf-basic-prof,\n"
                         "#   java -XX:+DumpPerfMapAtExit or python3.12 -X perf\n", share);
}

std::string Double(double value) { return JsonValue(Cell(value), Format::kNumber); }

}  // namespace

std::string SummaryText(const Program& program) {
  const Aggregate& a = program.aggregate;
  const RecordingFacts& facts = program.facts;
  DepthStats depth = DepthOf(a);
  std::string out = "# " + EscapeForTerminal(facts.path) + ": " + Join(facts.events);
  std::string sources = Sources(a);
  if (!sources.empty()) out += ", branches by " + sources;
  if (!facts.command.empty()) out += " (" + EscapeForTerminal(facts.command) + ")";
  out += absl::StrFormat("\n# %d samples, %d branches (%.1f a sample, deepest %d), %d different\n", a.samples, a.branch_count, depth.mean, depth.max, a.branches.size());
  if (a.empty_samples) out += absl::StrFormat("# %d samples (%.1f %%) without branches\n", a.empty_samples, Share(a.empty_samples, a.samples));
  if (facts.filtered_samples > 0) out += absl::StrFormat("# %.0f samples left out by the filters\n", facts.filtered_samples);
  if (facts.lost_records || facts.lost_samples) {
    out += "# LOST while recording: ";
    if (facts.lost_samples) out += absl::StrFormat("%d samples", facts.lost_samples);
    if (facts.lost_records) out += absl::StrFormat("%s%d records of mappings and tasks", facts.lost_samples ? ", " : "", facts.lost_records);
    out += "\n";
  }
  if (a.branch_count && a.unknown_prediction == a.branch_count) out += "# predictions are unknown in this recording\n";
  else if (a.unknown_prediction) out += absl::StrFormat("# prediction unknown for %.1f %% of the branches\n", Share(a.unknown_prediction, a.branch_count));
  if (a.branch_count && a.unknown_cycles == a.branch_count) out += "# cycles are unknown in this recording\n";
  out += UnnamedText(program);
  for (size_t i = 0; i < kRuleCount; ++i) {
    Rule rule = static_cast<Rule>(i);
    if (a.rules[rule]) out += absl::StrFormat("# %d %s\n", a.rules[rule], std::string(RuleText(rule)));
  }
  return out;
}

std::string SummaryJson(const Program& program) {
  const Aggregate& a = program.aggregate;
  const RecordingFacts& facts = program.facts;
  DepthStats depth = DepthOf(a);
  std::string out = "{\"schema\":\"brink.report.summary.v1\",\"file\":" + JsonString(facts.path) + ",\"events\":" + Strings(facts.events);
  out += absl::StrFormat(",\"samples\":%d,\"empty_samples\":%d,\"filtered_samples\":%.0f,\"entries\":%d,\"branches\":%d,\"distinct_branches\":%d,\"ranges\":%d",
                         a.samples, a.empty_samples, facts.filtered_samples, a.entries, a.branch_count, a.branches.size(), a.range_count);
  out += absl::StrFormat(",\"unknown_prediction\":%d,\"unknown_cycles\":%d,\"contiguous\":%s,\"lost_records\":%d,\"lost_samples\":%d,\"problems\":%d",
                         a.unknown_prediction, a.unknown_cycles, a.any_contiguous ? "true" : "false", facts.lost_records, facts.lost_samples, facts.problem_count);
  out += ",\"depth_mean\":" + Double(depth.mean) + absl::StrFormat(",\"depth_max\":%d,\"rules\":{", depth.max);
  for (size_t i = 0; i < kRuleCount; ++i) {
    Rule rule = static_cast<Rule>(i);
    out += absl::StrFormat("%s\"%s\":%d", i ? "," : "", std::string(RuleName(rule)), a.rules[rule]);
  }
  out += "},\"sources\":{";
  bool first = true;
  for (auto [source, count] : a.sources) {
    out += absl::StrFormat("%s\"%s\":%d", first ? "" : ",", std::string(SourceName(source)), count);
    first = false;
  }
  return out + "}}\n";
}

std::string QualityText(const Quality& quality) {
  std::string verdict = quality.verdict == Quality::Verdict::kNotYet ? "not yet enough" : std::string(VerdictName(quality.verdict));
  std::string out = "# verdict: " + verdict + "\n";
  for (const std::string& reason : quality.reasons) out += "# - " + reason + "\n";
  return out;
}

std::string QualityJson(const Quality& quality) {
  auto optional = [](const std::optional<double>& value) { return value ? Double(*value) : std::string("null"); };
  return absl::StrFormat("{\"schema\":\"brink.report.verdict.v1\",\"verdict\":\"%s\"", std::string(VerdictName(quality.verdict))) +
         ",\"halves_overlap\":" + optional(quality.halves_overlap) + ",\"noise_overlap\":" + optional(quality.noise_overlap) +
         absl::StrFormat(",\"distinct_branches\":%d,\"seen_once\":%d", quality.distinct_branches, quality.seen_once) +
         ",\"missing_mass\":" + Double(quality.missing_mass) + ",\"unresolved_share\":" + Double(quality.unresolved_share) +
         ",\"stale\":" + Strings(quality.stale) + ",\"reasons\":" + Strings(quality.reasons) + "}\n";
}

}  // namespace brink::report
