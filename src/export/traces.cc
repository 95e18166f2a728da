#include "export/traces.h"

namespace brink::exporter {
namespace {

constexpr uint64_t kNoEnd = UINT64_MAX;

}  // namespace

size_t TraceCollector::IndexOf(const Raw& raw) {
  if (cache_.size() >= kMaxCached) cache_.clear();
  auto [cached, fresh] = cache_.try_emplace(raw, 0);
  if (!fresh) return cached->second;
  Key key{.from = spaces_.Normalise(raw.pid, raw.from), .to = spaces_.Normalise(raw.pid, raw.to), .end = kNoEnd};
  // Both ends of straight code are in one mapping: the aggregator has seen to that.
  if (raw.end != kNoEnd) key.end = key.to.offset + (raw.end - raw.to);
  auto [known, added] = index_.try_emplace(key, traces_.size());
  if (added) traces_.push_back({.from = key.from, .to = key.to, .end = key.end == kNoEnd ? std::nullopt : std::optional(key.end)});
  cached->second = known->second;
  return known->second;
}

void TraceCollector::OnStack(const report::SampleView& sample, const report::CleanStack& stack) {
  const uint64_t generation = spaces_.Generation(sample.pid), kernel = spaces_.KernelGeneration();
  for (size_t i = 0; i < stack.entries.size(); ++i) {
    const BranchEntry& entry = stack.entries[i];
    const bool straight = i > 0 && stack.straight[i - 1];
    Trace& trace = traces_[IndexOf({sample.pid, generation, kernel, entry.from, entry.to, straight ? stack.range_end(i - 1) : kNoEnd})];
    ++trace.count;
    trace.mispredicted += entry.prediction() == Prediction::kMispredicted;
    if (trace.kind == Kind::kUnknown) trace.kind = entry.kind();
  }
}

std::vector<Trace> TracesOf(const report::Aggregate& aggregate) {
  std::vector<Trace> traces;
  for (const report::BranchStat& branch : aggregate.branches) {
    traces.push_back({.from = branch.from, .to = branch.to, .kind = branch.kind, .count = branch.count, .mispredicted = branch.mispredicted});
  }
  for (const report::RangeStat& range : aggregate.ranges) {
    traces.push_back({.to = range.start, .end = range.end, .count = range.count, .by_return = range.by_return});
  }
  return traces;
}

}  // namespace brink::exporter
