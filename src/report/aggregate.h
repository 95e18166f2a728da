// Counts of branches, straight ranges and sample addresses by Location: what every table is made of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/branch.h"
#include "report/stack.h"
#include "symbol/address_space.h"
#include "symbol/object.h"

namespace brink::report {

using symbol::Location;

struct BranchStat {
  Location from, to;
  Kind kind = Kind::kUnknown;
  uint64_t count = 0;
  uint64_t odd = 0;           // those in every second sample: the other half is count - odd
  uint64_t mispredicted = 0;
  uint64_t predicted = 0;     // the rest of `count` is unknown
  uint64_t cycles = 0;        // since the branch before, summed over
  uint64_t cycle_count = 0;   // those entries that say
  // Cycles of the entry that follows, where known: what a misprediction cost.
  uint64_t after_miss_cycles = 0, after_miss_count = 0;
  uint64_t after_hit_cycles = 0, after_hit_count = 0;

  uint64_t known() const { return mispredicted + predicted; }
};

struct RangeStat {
  Location start;       // first instruction
  uint64_t end = 0;     // offset of the last one (the branch that ended it), same object
  uint64_t count = 0;
  uint64_t by_return = 0;  // of these, entered by a return or from another object
  uint64_t cycles = 0;  // of the branch that ended it
  uint64_t cycle_count = 0;
};

// One sample as the report sees it.
struct SampleView {
  int32_t pid = -1;
  int32_t tid = -1;
  uint64_t ip = 0;
  uint64_t time = 0;
  uint64_t period = 0;
  std::span<const BranchEntry> branches;  // newest first
  StackMeta meta;
  uint32_t cpu = UINT32_MAX;              // unknown
  uint64_t cgroup = 0;                    // 0 unknown
  std::span<const uint64_t> chain;        // leaf first, with perf's context markers; of where the sample hit
  uint64_t end_ip = 0;                    // future stacks: first instruction not followed; 0 unknown
  uint8_t source = 0;     // enum brink_source; 0 unknown
  uint8_t direction = 0;  // enum brink_direction
  uint8_t stop = 0;       // enum brink_stop
  bool has_note = false;  // stop is meaningful
};

struct Aggregate {
  std::vector<BranchStat> branches;  // unsorted
  std::vector<RangeStat> ranges;
  std::vector<std::pair<Location, uint64_t>> ips;  // sample addresses
  RuleCounts rules;
  uint64_t samples = 0;
  uint64_t empty_samples = 0;     // without any entry
  uint64_t entries = 0;           // as recorded
  uint64_t branch_count = 0;      // after the rules
  uint64_t range_count = 0;
  uint64_t unknown_prediction = 0;
  uint64_t unknown_cycles = 0;
  bool any_contiguous = false;
  std::map<uint32_t, uint64_t> depth;  // entries per sample as recorded -> samples
  std::map<uint8_t, uint64_t> stops;   // enum brink_stop -> samples, of those with a note
  std::map<uint8_t, uint64_t> sources;
};

// Receives each stack after the rules, for paths, loops and exports. Locations are not resolved yet.
class StackObserver {
 public:
  virtual ~StackObserver() = default;
  // Every sample that is counted, those without branches too; before OnStack.
  virtual void OnSample(const SampleView&) {}
  virtual void OnStack(const SampleView& sample, const CleanStack& stack) = 0;
};

// Not thread-safe. `spaces` is asked at the time of Add, so it must stand at the sample's time.
class Aggregator {
 public:
  explicit Aggregator(const symbol::AddressSpaces* spaces) : spaces_(*spaces) {}

  void Add(const SampleView& sample);
  void AddObserver(StackObserver* observer) { observers_.push_back(observer); }
  // What has been counted so far; the aggregator can go on.
  const Aggregate& result() const { return result_; }
  Aggregate Take() { return std::move(result_); }
  // Forgets the counts (top).
  void Reset();

  // Rows held: branches, ranges and sample addresses.
  size_t rows() const { return result_.branches.size() + result_.ranges.size() + result_.ips.size(); }
  // Forgets the rows that were seen least, so that of each sort at most `share` (0 to 1) stay. Returns the executions (and
  // samples) that were in them; the totals of the result keep them.
  uint64_t Prune(double share);

 private:
  struct PairKey {
    uint64_t a, b;
    friend bool operator==(const PairKey&, const PairKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const PairKey& key) {
      return H::combine(std::move(h), key.a, key.b);
    }
  };
  struct Key {
    Location a;
    Location b;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.a, key.b);
    }
  };
  // One branch by its raw addresses, with what was next to it last time: programs repeat themselves, so most entries and
  // ranges are found without a look into a table.
  struct Slot {
    uint64_t from = 0, to = 0;
    uint64_t range_start = 0;           // of the range in `range`, which ends at `from`
    uint32_t branch = 0;                // index of its BranchStat
    uint32_t older = 0;                 // slot of the entry before it in time
    uint32_t range = kNoRange;
  };
  // Raw addresses of one address space -> index; emptied when the space changes.
  struct Cache {
    uint64_t generation = 0, kernel_generation = 0;
    std::vector<Slot> slots;
    absl::flat_hash_map<PairKey, uint32_t> branches;  // -> slots
    absl::flat_hash_map<PairKey, uint32_t> ranges;    // kNotOneObject for those that cross
    absl::flat_hash_map<uint64_t, uint32_t> ips;
  };
  static constexpr size_t kMaxCaches = 256;
  static constexpr uint32_t kNotOneObject = UINT32_MAX, kNoRange = UINT32_MAX - 1;

  Cache& CacheOf(int32_t pid);
  void DropCaches();
  uint32_t SlotOf(Cache& cache, int32_t pid, const BranchEntry& entry);
  uint32_t RangeIndex(Cache& cache, int32_t pid, uint64_t start, uint64_t end);
  void CountIp(Cache& cache, int32_t pid, uint64_t ip);
  void CountBranches(Cache& cache, const SampleView& sample);
  void CountBranch(BranchStat& stat, size_t i);

  const symbol::AddressSpaces& spaces_;
  Aggregate result_;
  std::vector<StackObserver*> observers_;
  absl::flat_hash_map<Key, uint32_t> branch_index_;
  absl::flat_hash_map<Key, uint32_t> range_index_;
  absl::flat_hash_map<Location, uint32_t> ip_index_;
  absl::flat_hash_map<int32_t, std::unique_ptr<Cache>> caches_;
  int32_t last_pid_ = -1;
  Cache* last_cache_ = nullptr;
  CleanStack clean_;
};

}  // namespace brink::report
