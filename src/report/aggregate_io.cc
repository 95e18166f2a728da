#include "report/aggregate_io.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "report/quality.h"

namespace brink::report {
namespace {

using namespace aggregate;
using symbol::Object;
using symbol::ObjectId;
using symbol::ObjectKind;

// Ids of a Program's objects as a Data's.
class ObjectMap {
 public:
  ObjectMap(const symbol::ObjectTable& objects, Data* data) : objects_(objects), data_(*data) {}
  Location operator()(const Location& location) {
    if (ids_.size() <= location.object) ids_.resize(objects_.size(), UINT32_MAX);
    uint32_t& id = ids_[location.object];
    if (id == UINT32_MAX) {
      const Object& object = objects_[location.object];
      id = data_.Intern({.kind = object.kind, .build_id = object.build_id, .path = object.path, .reference = object.reference});
    }
    return data_.LocationOf(id, location.offset);
  }

 private:
  const symbol::ObjectTable& objects_;
  Data& data_;
  std::vector<uint32_t> ids_;
};

template <size_t N>
void AddTo(std::array<uint64_t, N>* sums, const std::array<uint64_t, N>& values) {
  for (size_t i = 0; i < N; ++i) (*sums)[i] = SaturatingAdd((*sums)[i], values[i]);
}

std::array<uint64_t, kBranchFields> FieldsOf(const BranchStat& s) {
  return {s.count, s.mispredicted, s.predicted, s.cycles, s.cycle_count, s.odd, s.after_miss_cycles, s.after_miss_count, s.after_hit_cycles, s.after_hit_count};
}

BranchStat StatOf(const Location& from, const Location& to, const BranchCounts& counts) {
  const auto& f = counts.fields;
  return {.from = from, .to = to, .kind = counts.kind, .count = f[kCount], .odd = f[kOdd], .mispredicted = f[kMispredicted], .predicted = f[kPredicted],
          .cycles = f[kCycles], .cycle_count = f[kCycleCount], .after_miss_cycles = f[kAfterMissCycles], .after_miss_count = f[kAfterMissCount],
          .after_hit_cycles = f[kAfterHitCycles], .after_hit_count = f[kAfterHitCount]};
}

// All populations as one, by the Program's objects.
struct Summed {
  absl::flat_hash_map<std::pair<Location, Location>, BranchCounts> branches;
  absl::flat_hash_map<RangeKey, RangeCounts> ranges;
  absl::flat_hash_map<Location, uint64_t> ips;
};

void AddFacts(const Population& population, Program* program) {
  const auto& facts = population.facts;
  Aggregate& a = program->aggregate;
  a.samples += facts[kSampleTotal];
  a.empty_samples += facts[kEmptySamples];
  a.entries += facts[kEntries];
  a.unknown_prediction += facts[kUnknownPrediction];
  a.unknown_cycles += facts[kUnknownCycles];
  a.any_contiguous |= facts[kContiguous] != 0;
  for (size_t i = 0; i < kRuleCount; ++i) {
    auto rule = population.rules.find(std::string(RuleName(static_cast<Rule>(i))));
    if (rule != population.rules.end()) a.rules[static_cast<Rule>(i)] += rule->second;
  }
  if (auto rare = population.rules.find(std::string(kRareDropped)); rare != population.rules.end()) {
    program->facts.filter_lines.push_back(absl::StrFormat("%d executions in rows that were too rare to be kept (record --aggregate-rows)", rare->second));
  }
  // Of the depths only the sum and the greatest are kept.
  const uint64_t with_stack = facts[kSampleTotal] - std::min(facts[kSampleTotal], facts[kEmptySamples]);
  a.depth[0] += facts[kEmptySamples];
  if (with_stack) a.depth[static_cast<uint32_t>((facts[kEntries] + with_stack / 2) / with_stack)] += with_stack;
  a.depth[static_cast<uint32_t>(facts[kDepth])] += 0;
  RecordingFacts& told = program->facts;
  told.lost_samples += facts[kLostSamples];
  told.lost_records += facts[kLostRecords];
  told.cpu_ns += facts[kCpuNs];
  told.most_frequent = std::max(told.most_frequent, facts[kFrequency]);
  told.branch_stacks |= facts[kEntries] != 0;
}

}  // namespace

std::string SourceOf(const Aggregate& aggregate) {
  auto most = std::max_element(aggregate.sources.begin(), aggregate.sources.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == aggregate.sources.end() || most->first == BRINK_SOURCE_NONE ? "perf" : std::string(SourceName(most->first));
}

void AddToData(const Aggregate& a, const symbol::ObjectTable& objects, const std::string& name, Data* data) {
  Population& population = data->population(name);
  ObjectMap map(objects, data);
  for (const BranchStat& stat : a.branches) {
    BranchCounts& counts = population.branches[{map(stat.from), map(stat.to)}];
    counts.kind = std::max(counts.kind, stat.kind);
    AddTo(&counts.fields, FieldsOf(stat));
  }
  for (const RangeStat& stat : a.ranges) {
    const Location start = map(stat.start);
    if (!data->Placed(start.object)) {
      population.facts[kUnplacedRanges] += stat.count;
      continue;
    }
    AddTo(&population.ranges[{start, stat.end}].fields, {stat.count, stat.by_return, stat.cycles, stat.cycle_count});
  }
  for (const auto& [location, count] : a.ips) {
    uint64_t& sum = population.ips[map(location)];
    sum = SaturatingAdd(sum, count);
  }
  auto& facts = population.facts;
  facts[kSampleTotal] += a.samples;
  facts[kEmptySamples] += a.empty_samples;
  facts[kEntries] += a.entries;
  facts[kUnknownPrediction] += a.unknown_prediction;
  facts[kUnknownCycles] += a.unknown_cycles;
  if (!a.depth.empty()) facts[kDepth] = std::max<uint64_t>(facts[kDepth], a.depth.rbegin()->first);
  facts[kContiguous] |= a.any_contiguous;
  for (size_t i = 0; i < kRuleCount; ++i) {
    const Rule rule = static_cast<Rule>(i);
    if (a.rules[rule]) population.rules[std::string(RuleName(rule))] += a.rules[rule];
  }
}

Data ToData(const Program& program) {
  Data data;
  const std::string name = SourceOf(program.aggregate);
  AddToData(program.aggregate, program.objects, name, &data);
  auto& facts = data.population(name).facts;
  facts[kInputs] = 1;
  facts[kCpuNs] = program.facts.cpu_ns;
  facts[kLostSamples] = program.facts.lost_samples;
  facts[kLostRecords] = program.facts.lost_records;
  facts[kFrequency] = program.facts.most_frequent;
  facts[kUnfinished] = program.facts.problem_count != 0;
  return data;
}

void FromData(const Data& data, Program* program) {
  std::vector<ObjectId> ids;
  for (uint32_t i = 0; i < data.object_count(); ++i) {
    const ObjectInfo& object = data.object(i);
    ids.push_back(object.kind == ObjectKind::kNone ? symbol::kNoObject
                                                   : program->objects.Intern({.kind = object.kind, .path = object.path, .build_id = object.build_id, .reference = object.reference}));
  }
  auto here = [&](const Location& location) { return Location{ids[location.object], location.offset}; };
  Summed sums;
  uint64_t inputs = 0, unfinished = 0;
  for (const auto& [name, population] : data.populations()) {
    AddFacts(population, program);
    program->facts.events.push_back(name);
    inputs += population.facts[kInputs];
    unfinished += population.facts[kUnfinished];
    for (const auto& [pair, counts] : population.branches) {
      BranchCounts& sum = sums.branches[{here(pair.first), here(pair.second)}];
      sum.kind = std::max(sum.kind, counts.kind);
      AddTo(&sum.fields, counts.fields);
    }
    for (const auto& [key, counts] : population.ranges) AddTo(&sums.ranges[{here(key.start), key.end}].fields, counts.fields);
    for (const auto& [location, count] : population.ips) sums.ips[here(location)] += count;
  }
  Aggregate& a = program->aggregate;
  for (const auto& [pair, counts] : sums.branches) {
    a.branches.push_back(StatOf(pair.first, pair.second, counts));
    a.branch_count += counts.fields[kCount];
  }
  for (const auto& [key, counts] : sums.ranges) {
    const auto& f = counts.fields;
    a.ranges.push_back({.start = key.start, .end = key.end, .count = f[kRangeCount], .by_return = f[kByReturn], .cycles = f[kRangeCycles], .cycle_count = f[kRangeCycleCount]});
    a.range_count += f[kRangeCount];
  }
  for (const auto& [location, count] : sums.ips) a.ips.emplace_back(location, count);
  // Hash order is different from run to run; tables sort, but not among equals.
  std::sort(a.branches.begin(), a.branches.end(), [](const auto& x, const auto& y) { return std::pair(x.from, x.to) < std::pair(y.from, y.to); });
  std::sort(a.ranges.begin(), a.ranges.end(), [](const auto& x, const auto& y) { return std::pair(x.start, x.end) < std::pair(y.start, y.end); });
  std::sort(a.ips.begin(), a.ips.end());
  std::string text = absl::StrFormat("aggregate of %d recordings", inputs);
  if (data.unit != Unit::kRecords) text += ", weighed by " + std::string(UnitName(data.unit));
  program->facts.filter_lines.push_back(text);
  if (unfinished) program->facts.filter_lines.push_back(absl::StrFormat("%d of them were damaged or not ended in order", unfinished));
}

}  // namespace brink::report
