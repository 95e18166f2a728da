#include "report/quality.h"

#include <algorithm>
#include <cmath>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink::report {
namespace {

// Overlap of two halves of the given counts.
std::optional<double> Overlap(const std::vector<std::pair<uint64_t, uint64_t>>& halves) {
  double first = 0, second = 0, overlap = 0;
  for (auto [a, b] : halves) {
    first += static_cast<double>(a);
    second += static_cast<double>(b);
  }
  if (first == 0 || second == 0) return std::nullopt;
  for (auto [a, b] : halves) overlap += std::min(static_cast<double>(a) / first, static_cast<double>(b) / second);
  return overlap;
}

// Expected overlap of two independent halves drawn from the same distribution: for each branch the mean of |a - b| of two
// Poisson counts of mean c/2 each is about sqrt(2 c / pi).
double NoiseOverlap(const std::vector<BranchStat>& branches, uint64_t total) {
  double distance = 0;
  for (const BranchStat& branch : branches) distance += std::min(static_cast<double>(branch.count), std::sqrt(2 * static_cast<double>(branch.count) / M_PI));
  return 1 - distance / static_cast<double>(total);
}

}  // namespace

std::string_view SourceName(uint8_t source) {
  constexpr std::string_view kNames[] = {"unknown", "lbr", "walk", "hop", "step", "replay"};
  return source < std::size(kNames) ? kNames[source] : "unknown";
}

std::string_view VerdictName(Quality::Verdict verdict) {
  constexpr std::string_view kNames[] = {"enough", "almost", "not_yet", "empty"};
  return kNames[static_cast<size_t>(verdict)];
}

DepthStats DepthOf(const Aggregate& aggregate) {
  DepthStats stats;
  uint64_t sum = 0, seen = 0;
  for (auto [depth, count] : aggregate.depth) {
    sum += depth * count;
    if (seen * 2 < aggregate.samples) stats.median = depth;
    if (seen * 10 < aggregate.samples * 9) stats.p90 = depth;
    seen += count;
    stats.max = depth;
  }
  if (aggregate.samples) stats.mean = static_cast<double>(sum) / static_cast<double>(aggregate.samples);
  return stats;
}

Quality Judge(Program& program) {
  Quality quality;
  const Aggregate& aggregate = program.aggregate;
  if (aggregate.branch_count == 0) {
    quality.reasons.push_back(aggregate.samples == 0 ? "no samples" : "samples without branch stacks: record with brink record, or perf record -b");
    return quality;
  }
  std::vector<std::pair<uint64_t, uint64_t>> halves;
  uint64_t unresolved = 0;
  std::vector<bool> seen(program.objects.size());
  for (const BranchStat& branch : aggregate.branches) {
    halves.emplace_back(branch.odd, branch.count - branch.odd);
    quality.seen_once += branch.count == 1;
    if (!(*program.symbolizer)[program.FunctionAt(branch.from)].resolved()) unresolved += branch.count;
    seen[branch.from.object] = seen[branch.to.object] = true;
  }
  const double total = static_cast<double>(aggregate.branch_count);
  quality.distinct_branches = aggregate.branches.size();
  quality.halves_overlap = Overlap(halves);
  quality.noise_overlap = NoiseOverlap(aggregate.branches, aggregate.branch_count);
  quality.missing_mass = static_cast<double>(quality.seen_once) / total;
  quality.unresolved_share = static_cast<double>(unresolved) / total;
  for (symbol::ObjectId id = 1; id < seen.size(); ++id) {
    if (!seen[id] || program.objects[id].kind != symbol::ObjectKind::kFile) continue;
    const symbol::LocatedFile& file = program.symbolizer->FileOf(id);
    if (file.reason == symbol::Unresolved::kBuildIdMismatch) quality.stale.push_back(file.detail);
  }
  const double overlap = quality.halves_overlap.value_or(0);
  auto& reasons = quality.reasons;
  reasons.push_back(absl::StrFormat("two halves of the samples agree to %.1f %% (noise alone would give %.1f %%)", overlap * 100, *quality.noise_overlap * 100));
  reasons.push_back(absl::StrFormat("about %.2f %% of executed branches were never seen", quality.missing_mass * 100));
  using Verdict = Quality::Verdict;
  quality.verdict = overlap >= 0.9 && quality.missing_mass < 0.01 ? Verdict::kEnough : overlap >= 0.75 && quality.missing_mass < 0.05 ? Verdict::kAlmost : Verdict::kNotYet;
  if (quality.verdict != Verdict::kEnough) {
    // The distance between halves falls with the square root of their size.
    double factor = std::clamp(std::pow((1 - overlap) / 0.1, 2), 1.5, 1000.0);
    reasons.push_back(absl::StrFormat("record about %.0f times as long, or deeper stacks", std::ceil(factor)));
  }
  if (overlap + 0.05 < *quality.noise_overlap) reasons.push_back("the halves differ more than by chance: samples that follow one another see the same code; longer runs help more than higher rates");
  for (const std::string& line : quality.stale) reasons.push_back("stale: " + line);
  if (quality.unresolved_share > 0.2) reasons.push_back(absl::StrFormat("%.0f %% of the branches have no name", quality.unresolved_share * 100));
  return quality;
}

Table QualityTable(Program& program) {
  Table table{.name = "quality", .title = "Quality by function"};
  table.columns = {{"share", "SHARE", Format::kPercent}, {"branches", "BRANCHES", Format::kCount}, {"samples", "SAMPLES", Format::kCount},
                   {"halves_overlap", "AGREE", Format::kPercent}, {"distinct", "DISTINCT", Format::kCount},
                   {"covered", "COVERED", Format::kPercent}, {"function", "FUNCTION"}, {"object", "OBJECT"}};
  struct Sum {
    uint64_t branches = 0, samples = 0, distinct = 0;
    std::vector<std::pair<uint64_t, uint64_t>> halves, ranges;
  };
  absl::flat_hash_map<FunctionId, Sum> sums;
  symbol::Symbolizer& names = *program.symbolizer;
  for (const BranchStat& branch : program.aggregate.branches) {
    Sum& sum = sums[program.FunctionAt(branch.from)];
    sum.branches += branch.count;
    ++sum.distinct;
    sum.halves.emplace_back(branch.odd, branch.count - branch.odd);
  }
  for (const auto& [ip, count] : program.aggregate.ips) sums[program.FunctionAt(ip)].samples += count;
  for (const RangeStat& range : program.aggregate.ranges) {
    auto start = names.VaddrOf(range.start);
    if (start) sums[program.FunctionAt(range.start)].ranges.emplace_back(*start, *start + (range.end - range.start.offset));
  }
  for (auto& [id, sum] : sums) {
    const symbol::Function& function = names[id];
    std::sort(sum.ranges.begin(), sum.ranges.end());
    uint64_t covered = 0, reached = 0;
    for (auto [start, end] : sum.ranges) {
      uint64_t last = std::min(end + 1, function.end);
      uint64_t first = std::max({start, reached, function.start});
      if (last > first) covered += last - first;
      reached = std::max(reached, last);
    }
    auto overlap = Overlap(sum.halves);
    bool extent = function.resolved() && function.end > function.start && program.aggregate.any_contiguous;
    table.rows.push_back({Ratio(sum.branches, program.aggregate.branch_count), sum.branches, sum.samples, overlap ? Cell(*overlap) : Unknown(),
                          sum.distinct, extent ? Ratio(covered, function.end - function.start) : Unknown(), function.name,
                          program.objects[function.object].ShortName()});
  }
  return table;
}

}  // namespace brink::report
