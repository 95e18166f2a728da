#include "report/aggregate.h"

#include <algorithm>

namespace brink::report {

Aggregator::Cache& Aggregator::CacheOf(int32_t pid) {
  if (pid != last_pid_ || !last_cache_) {
    if (caches_.size() >= kMaxCaches && !caches_.contains(pid)) caches_.clear();
    std::unique_ptr<Cache>& slot = caches_[pid];
    if (!slot) slot = std::make_unique<Cache>();
    last_cache_ = slot.get();
    last_pid_ = pid;
  }
  uint64_t generation = spaces_.Generation(pid), kernel = spaces_.KernelGeneration();
  Cache& cache = *last_cache_;
  if (cache.generation != generation || cache.kernel_generation != kernel) {
    cache.slots.clear();
    cache.branches.clear();
    cache.ranges.clear();
    cache.ips.clear();
    cache.generation = generation;
    cache.kernel_generation = kernel;
  }
  return cache;
}

uint32_t Aggregator::SlotOf(Cache& cache, int32_t pid, const BranchEntry& entry) {
  auto [it, fresh] = cache.branches.try_emplace({entry.from, entry.to}, static_cast<uint32_t>(cache.slots.size()));
  if (!fresh) return it->second;
  Key key{spaces_.Normalise(pid, entry.from), spaces_.Normalise(pid, entry.to)};
  auto [global, added] = branch_index_.try_emplace(key, static_cast<uint32_t>(result_.branches.size()));
  if (added) result_.branches.push_back({.from = key.a, .to = key.b});
  cache.slots.push_back({.from = entry.from, .to = entry.to, .branch = global->second});
  return it->second;
}

uint32_t Aggregator::RangeIndex(Cache& cache, int32_t pid, uint64_t start, uint64_t end) {
  auto [it, fresh] = cache.ranges.try_emplace({start, end}, 0);
  if (!fresh) return it->second;
  Key key{spaces_.Normalise(pid, start), spaces_.Normalise(pid, end)};
  if (key.a.object != key.b.object || key.b.offset < key.a.offset) {
    it->second = kNotOneObject;
    return kNotOneObject;
  }
  auto [global, added] = range_index_.try_emplace(key, static_cast<uint32_t>(result_.ranges.size()));
  if (added) result_.ranges.push_back({.start = key.a, .end = key.b.offset});
  it->second = global->second;
  return it->second;
}

void Aggregator::CountIp(Cache& cache, int32_t pid, uint64_t ip) {
  auto [it, fresh] = cache.ips.try_emplace(ip, 0);
  if (fresh) {
    Location location = spaces_.Normalise(pid, ip);
    auto [global, added] = ip_index_.try_emplace(location, static_cast<uint32_t>(result_.ips.size()));
    if (added) result_.ips.emplace_back(location, 0);
    it->second = global->second;
  }
  ++result_.ips[it->second].second;
}

void Aggregator::CountBranch(BranchStat& stat, size_t i) {
  const BranchEntry& entry = clean_.entries[i];
  ++stat.count;
  stat.odd += result_.samples & 1;
  if (stat.kind == Kind::kUnknown) stat.kind = entry.kind();
  const uint32_t cycles = entry.cycles();
  stat.cycles += cycles;
  stat.cycle_count += cycles != 0;
  result_.unknown_cycles += cycles == 0;
  const Prediction prediction = entry.prediction();
  if (prediction == Prediction::kUnknown) {
    ++result_.unknown_prediction;
    return;
  }
  const bool miss = prediction == Prediction::kMispredicted;
  ++(miss ? stat.mispredicted : stat.predicted);
  if (const uint32_t next = i > 0 ? clean_.entries[i - 1].cycles() : 0) {
    (miss ? stat.after_miss_cycles : stat.after_hit_cycles) += next;
    ++(miss ? stat.after_miss_count : stat.after_hit_count);
  }
}

void Aggregator::CountBranches(Cache& cache, const SampleView& sample) {
  uint32_t newer = UINT32_MAX;
  uint32_t led_into = kNoRange;  // the range that the current entry led into
  for (size_t i = 0; i < clean_.entries.size(); ++i) {
    const BranchEntry& entry = clean_.entries[i];
    uint32_t at = newer == UINT32_MAX ? UINT32_MAX : cache.slots[newer].older;
    if (at == UINT32_MAX || cache.slots[at].from != entry.from || cache.slots[at].to != entry.to) {
      at = SlotOf(cache, sample.pid, entry);
      if (newer != UINT32_MAX) cache.slots[newer].older = at;
    }
    newer = at;
    Slot& slot = cache.slots[at];
    BranchStat& branch = result_.branches[slot.branch];
    CountBranch(branch, i);
    if (const uint32_t entered = std::exchange(led_into, kNoRange); entered != kNoRange) {
      result_.ranges[entered].by_return += entry.kind() == Kind::kRet || branch.from.object != branch.to.object;
    }
    if (i >= clean_.straight.size() || !clean_.straight[i]) continue;
    const uint64_t start = clean_.range_start(i);
    if (slot.range == kNoRange || slot.range_start != start) {
      slot.range = RangeIndex(cache, sample.pid, start, entry.from);
      slot.range_start = start;
    }
    if (slot.range == kNotOneObject) {
      ++result_.rules[Rule::kRangeObjects];
      clean_.straight[i] = 0;
      continue;
    }
    RangeStat& range = result_.ranges[slot.range];
    ++range.count;
    led_into = slot.range;
    ++result_.range_count;
    const uint32_t cycles = entry.cycles();
    range.cycles += cycles;
    range.cycle_count += cycles != 0;
  }
}

void Aggregator::Add(const SampleView& sample) {
  ++result_.samples;
  ++result_.depth[static_cast<uint32_t>(sample.branches.size())];
  ++result_.sources[sample.source];
  if (sample.has_note) ++result_.stops[sample.stop];
  result_.entries += sample.branches.size();
  result_.empty_samples += sample.branches.empty();
  result_.any_contiguous |= sample.meta.contiguous && !sample.meta.call_stack;
  Cache& cache = CacheOf(sample.pid);
  CountIp(cache, sample.pid, sample.ip);
  for (StackObserver* observer : observers_) observer->OnSample(sample);
  if (sample.branches.empty()) return;
  Clean(sample.branches, sample.meta, &clean_, &result_.rules);
  result_.branch_count += clean_.entries.size();
  CountBranches(cache, sample);
  for (StackObserver* observer : observers_) observer->OnStack(sample, clean_);
}

void Aggregator::DropCaches() {
  caches_.clear();
  last_cache_ = nullptr;
  last_pid_ = -1;
}

void Aggregator::Reset() {
  result_ = Aggregate{};
  branch_index_.clear();
  range_index_.clear();
  ip_index_.clear();
  DropCaches();
}

namespace {

// Leaves at most `share` of the rows, those with the highest counts; the sum of the others' counts.
template <typename Row, typename CountOf>
uint64_t KeepFrequent(std::vector<Row>* rows, double share, CountOf count) {
  const size_t keep = static_cast<size_t>(static_cast<double>(rows->size()) * share);
  if (keep >= rows->size()) return 0;
  std::nth_element(rows->begin(), rows->begin() + static_cast<std::ptrdiff_t>(keep), rows->end(), [&](const Row& a, const Row& b) { return count(a) > count(b); });
  uint64_t dropped = 0;
  for (size_t i = keep; i < rows->size(); ++i) dropped += count((*rows)[i]);
  rows->resize(keep);
  rows->shrink_to_fit();
  return dropped;
}

}  // namespace

uint64_t Aggregator::Prune(double share) {
  DropCaches();
  uint64_t dropped = KeepFrequent(&result_.branches, share, [](const BranchStat& row) { return row.count; });
  dropped += KeepFrequent(&result_.ranges, share, [](const RangeStat& row) { return row.count; });
  dropped += KeepFrequent(&result_.ips, share, [](const std::pair<Location, uint64_t>& row) { return row.second; });
  // Fresh tables: clear() would keep the memory.
  branch_index_ = {};
  range_index_ = {};
  ip_index_ = {};
  for (uint32_t i = 0; const BranchStat& row : result_.branches) branch_index_.emplace(Key{row.from, row.to}, i++);
  for (uint32_t i = 0; const RangeStat& row : result_.ranges) range_index_.emplace(Key{row.start, {row.start.object, row.end}}, i++);
  for (uint32_t i = 0; const auto& [place, count] : result_.ips) ip_index_.emplace(place, i++);
  return dropped;
}

}  // namespace brink::report
