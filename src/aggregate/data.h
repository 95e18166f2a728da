// Counts of branches, straight ranges and sample addresses that no longer depend on a host: what the aggregate file holds
// (docs/aggregate.md).
//
// Code is known by build id and file offset, so the counts of a fleet can be added. Adding is associative and
// commutative, and saturates at 2^64-1. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/branch.h"
#include "base/status.h"
#include "symbol/object.h"

namespace brink::aggregate {

using symbol::Location;

// What one unit of a count is. Files of different units cannot be added.
enum class Unit : uint8_t {
  kRecords,     // one executed branch of a recorded stack
  kSamples,     // a thousandth of a sample
  kCpuSeconds,  // a microsecond of time on a CPU
};
std::string_view UnitName(Unit unit);
StatusOr<Unit> ParseUnit(std::string_view text);

enum BranchField : uint8_t {
  kCount, kMispredicted, kPredicted, kCycles, kCycleCount, kOdd, kAfterMissCycles, kAfterMissCount, kAfterHitCycles, kAfterHitCount, kBranchFields
};
struct BranchCounts {
  Kind kind = Kind::kUnknown;
  std::array<uint64_t, kBranchFields> fields = {};
};

enum RangeField : uint8_t { kRangeCount, kByReturn, kRangeCycles, kRangeCycleCount, kRangeFields };
struct RangeCounts {
  std::array<uint64_t, kRangeFields> fields = {};
};

// About a population as a whole. In the order of FactNames(); sums unless it says otherwise.
enum Fact : uint8_t {
  kInputs, kSampleTotal, kEmptySamples, kEntries, kCpuNs, kLostSamples, kLostRecords, kUnfinished, kUnknownPrediction, kUnknownCycles,
  kUnplacedRanges,
  kDepth,        // greatest
  kFrequency,    // greatest
  kContiguous,   // greatest: 1 when any stack was whole
  kFacts
};
struct FactInfo {
  const char* name;
  bool greatest;
};
const std::array<FactInfo, kFacts>& FactNames();

struct RangeKey {
  Location start;
  uint64_t end = 0;
  friend bool operator==(const RangeKey&, const RangeKey&) = default;
  friend auto operator<=>(const RangeKey&, const RangeKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RangeKey& key) {
    return H::combine(std::move(h), key.start, key.end);
  }
};

// What is alike and may be added: the same source, container and time slice.
struct Population {
  std::array<uint64_t, kFacts> facts = {};
  std::map<std::string, uint64_t> rules;  // name of a rule (docs/report.md) -> entries or ranges
  absl::flat_hash_map<std::pair<Location, Location>, BranchCounts> branches;
  absl::flat_hash_map<RangeKey, RangeCounts> ranges;
  absl::flat_hash_map<Location, uint64_t> ips;

  uint64_t branch_count() const;
};

struct ObjectInfo {
  symbol::ObjectKind kind = symbol::ObjectKind::kNone;
  std::string build_id;  // raw, without padding; "" unknown
  std::string path;      // the least of those seen
  std::string reference; // kKernel: the symbol that its offsets count from
};

class Data {
 public:
  // Two objects of one build id are one object. Anonymous code and what no mapping covers are one object each, and
  // their offsets mean nothing anywhere else: LocationOf puts 0 (2^63 for addresses of an unknown kernel).
  uint32_t Intern(const ObjectInfo& object);
  const ObjectInfo& object(uint32_t id) const { return objects_[id]; }
  const std::string& key(uint32_t id) const { return keys_[id]; }
  size_t object_count() const { return objects_.size(); }
  Location LocationOf(uint32_t object, uint64_t offset) const;
  // Whether offsets in it mean something.
  bool Placed(uint32_t object) const;

  Population& population(std::string_view name) { return populations_[std::string(name)]; }
  const std::map<std::string, Population>& populations() const { return populations_; }

  Unit unit = Unit::kRecords;

  // Adds `other`, whose unit must be the same.
  Status Add(const Data& other);
  // Turns counts of records into `wanted`: every population then weighs as many units as it has samples or time on CPUs,
  // whatever the depth of its stacks. FAILED_PRECONDITION where it is not known, or the counts are of a third unit.
  Status Weigh(Unit wanted);

 private:
  std::vector<ObjectInfo> objects_;
  std::vector<std::string> keys_;
  absl::flat_hash_map<std::string, uint32_t> index_;
  std::map<std::string, Population> populations_;
};

uint64_t SaturatingAdd(uint64_t a, uint64_t b);

// "f:0123..ab", "f:=/usr/bin/x" without a build id, "k:..." and so on: how a row names its object.
std::string KeyOf(const ObjectInfo& object);

}  // namespace brink::aggregate
