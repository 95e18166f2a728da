#include "report/mispredict.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "report/blocks.h"

namespace brink::report {
namespace {

struct Sum {
  uint64_t count = 0, mispredicted = 0, known = 0;
  uint64_t miss_cycles = 0, miss_count = 0, hit_cycles = 0, hit_count = 0;
  size_t targets = 0;
  Kind kind = Kind::kUnknown;
};

std::string Advice(const MispredictRow& row) {
  const double rate = row.known ? static_cast<double>(row.mispredicted) / static_cast<double>(row.known) : 0;
  if (row.kind == Kind::kIndCall || row.kind == Kind::kIndJump) {
    return row.targets > 2 ? "many targets: test for the commonest first, sort work by target" : "compare with the common target and call it directly";
  }
  if (row.kind == Kind::kRet) return "unbalanced calls and returns, or deep recursion";
  if (row.kind != Kind::kCond) return rate < 0.02 ? "rare" : "look at the code";
  if (!row.taken_ratio) return "see how its data is ordered";
  double taken = *row.taken_ratio;
  if (taken > 0.95 || taken < 0.05) return "biased: likely/unlikely, or lay the common side out straight";
  if (taken > 0.8 || taken < 0.2) return "leaning: profile-guided layout, then order the data";
  return "depends on data: branchless (select, table), or sort or group the data";
}

}  // namespace

MispredictReport FindMispredictions(Program& program) {
  MispredictReport report;
  absl::flat_hash_map<Location, Sum> sums;
  uint64_t all = 0;
  for (const BranchStat& branch : program.aggregate.branches) {
    Sum& sum = sums[branch.from];
    sum.count += branch.count;
    sum.mispredicted += branch.mispredicted;
    sum.known += branch.known();
    sum.miss_cycles += branch.after_miss_cycles;
    sum.miss_count += branch.after_miss_count;
    sum.hit_cycles += branch.after_hit_cycles;
    sum.hit_count += branch.after_hit_count;
    ++sum.targets;
    if (sum.kind == Kind::kUnknown) sum.kind = branch.kind;
    all += branch.mispredicted;
    report.prediction_known |= branch.known() > 0;
  }
  Coverage coverage(program.aggregate.ranges);
  double loss = 0;
  for (const auto& [from, sum] : sums) {
    if (sum.mispredicted == 0) continue;
    MispredictRow row{.from = from, .kind = sum.kind, .mispredicted = sum.mispredicted, .known = sum.known, .targets = sum.targets};
    row.share = static_cast<double>(sum.mispredicted) / static_cast<double>(all);
    row.cost_cycles = kAssumedPenalty;
    if (sum.miss_count >= kLeastSamples && sum.hit_count >= kLeastSamples) {
      double miss = static_cast<double>(sum.miss_cycles) / static_cast<double>(sum.miss_count);
      double hit = static_cast<double>(sum.hit_cycles) / static_cast<double>(sum.hit_count);
      row.cost_cycles = std::max(1.0, miss - hit);  // never free, whatever the noise says
      row.cost_measured = true;
    }
    row.loss_cycles = row.cost_cycles * static_cast<double>(sum.mispredicted);
    if (sum.kind == Kind::kCond && program.aggregate.any_contiguous) {
      uint64_t passed = coverage.Passing(from);
      row.taken_ratio = static_cast<double>(sum.count) / static_cast<double>(sum.count + passed);
    }
    row.advice = Advice(row);
    loss += row.loss_cycles;
    report.rows.push_back(std::move(row));
  }
  std::sort(report.rows.begin(), report.rows.end(), [](const MispredictRow& a, const MispredictRow& b) {
    if (a.loss_cycles != b.loss_cycles) return a.loss_cycles > b.loss_cycles;
    return a.mispredicted != b.mispredicted ? a.mispredicted > b.mispredicted : a.from < b.from;
  });
  if (!report.prediction_known) {
    report.notes.push_back("this recording does not know predictions: only hardware records do (brink doctor says whether this machine has them)");
    return report;
  }
  double sum = 0;
  size_t few = 0;
  while (few < report.rows.size() && sum < 0.8 * loss) sum += report.rows[few++].loss_cycles;
  if (loss > 0) {
    report.notes.push_back(absl::StrFormat("%d of %d mispredicted branches make %.0f %% of the loss", few, report.rows.size(), 100 * sum / loss));
  }
  report.notes.push_back(absl::StrFormat("COST is the cycles of what follows, mispredicted minus predicted; %.0f is assumed where fewer than %d of each were seen", kAssumedPenalty, kLeastSamples));
  report.notes.push_back("only taken branches are recorded: mispredictions of branches that were not taken are not in here");
  return report;
}

}  // namespace brink::report
