#include "report/aggregate.h"

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
    cache.branches.clear();
    cache.ranges.clear();
    cache.ips.clear();
    cache.generation = generation;
    cache.kernel_generation = kernel;
  }
  return cache;
}

uint32_t Aggregator::BranchIndex(Cache& cache, int32_t pid, uint64_t from, uint64_t to) {
  auto [it, fresh] = cache.branches.try_emplace({from, to}, 0);
  if (!fresh) return it->second;
  Key key{spaces_.Normalise(pid, from), spaces_.Normalise(pid, to)};
  auto [global, added] = branch_index_.try_emplace(key, static_cast<uint32_t>(result_.branches.size()));
  if (added) result_.branches.push_back({.from = key.a, .to = key.b});
  it->second = global->second;
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

void Aggregator::CountBranches(Cache& cache, const SampleView& sample) {
  const bool odd = result_.samples & 1;
  for (size_t i = 0; i < clean_.entries.size(); ++i) {
    const BranchEntry& entry = clean_.entries[i];
    BranchStat& stat = result_.branches[BranchIndex(cache, sample.pid, entry.from, entry.to)];
    ++stat.count;
    stat.odd += odd;
    if (stat.kind == Kind::kUnknown) stat.kind = entry.kind();
    const uint32_t cycles = entry.cycles();
    if (cycles) {
      stat.cycles += cycles;
      ++stat.cycle_count;
    } else {
      ++result_.unknown_cycles;
    }
    Prediction prediction = entry.prediction();
    stat.mispredicted += prediction == Prediction::kMispredicted;
    stat.predicted += prediction == Prediction::kPredicted;
    result_.unknown_prediction += prediction == Prediction::kUnknown;
    if (const uint32_t next = i > 0 ? clean_.entries[i - 1].cycles() : 0; next && prediction != Prediction::kUnknown) {
      bool miss = prediction == Prediction::kMispredicted;
      (miss ? stat.after_miss_cycles : stat.after_hit_cycles) += next;
      ++(miss ? stat.after_miss_count : stat.after_hit_count);
    }
    if (i >= clean_.straight.size() || !clean_.straight[i]) continue;
    uint32_t range = RangeIndex(cache, sample.pid, clean_.range_start(i), clean_.range_end(i));
    if (range == kNotOneObject) {
      ++result_.rules[Rule::kRangeObjects];
      clean_.straight[i] = 0;
      continue;
    }
    RangeStat& stat_range = result_.ranges[range];
    ++stat_range.count;
    ++result_.range_count;
    if (cycles) {
      stat_range.cycles += cycles;
      ++stat_range.cycle_count;
    }
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
  if (sample.branches.empty()) return;
  Clean(sample.branches, sample.meta, &clean_, &result_.rules);
  result_.branch_count += clean_.entries.size();
  CountBranches(cache, sample);
  for (StackObserver* observer : observers_) observer->OnStack(sample, clean_);
}

void Aggregator::Reset() {
  result_ = Aggregate{};
  branch_index_.clear();
  range_index_.clear();
  ip_index_.clear();
  caches_.clear();
  last_cache_ = nullptr;
  last_pid_ = -1;
}

}  // namespace brink::report
