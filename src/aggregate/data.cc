#include "aggregate/data.h"

#include <algorithm>

#include "base/strings.h"

namespace brink::aggregate {
namespace {

using symbol::ObjectKind;

// In the order of ObjectKind.
constexpr char kKindLetters[] = "nfkmvybj";

// a * num / den, rounded to the nearest, and at least 1 where there was something.
uint64_t Scaled(uint64_t a, uint64_t num, uint64_t den) {
  if (a == 0) return 0;
  const unsigned __int128 scaled = (static_cast<unsigned __int128>(a) * num + den / 2) / den;
  if (scaled > UINT64_MAX) return UINT64_MAX;
  return std::max<uint64_t>(1, static_cast<uint64_t>(scaled));
}

}  // namespace

std::string_view UnitName(Unit unit) {
  constexpr std::string_view kNames[] = {"records", "samples", "cpu-seconds"};
  return kNames[static_cast<size_t>(unit)];
}

StatusOr<Unit> ParseUnit(std::string_view text) {
  for (Unit unit : {Unit::kRecords, Unit::kSamples, Unit::kCpuSeconds}) {
    if (text == UnitName(unit)) return unit;
  }
  return InvalidArgument("'" + EscapeForTerminal(text) + "' is none of records, samples, cpu-seconds");
}

const std::array<FactInfo, kFacts>& FactNames() {
  static constexpr std::array<FactInfo, kFacts> kNames = {{{"inputs", false}, {"samples", false}, {"empty_samples", false}, {"entries", false}, {"cpu_ns", false},
                                                           {"lost_samples", false}, {"lost_records", false}, {"unfinished", false}, {"unknown_prediction", false},
                                                           {"unknown_cycles", false}, {"unplaced_ranges", false}, {"depth", true}, {"frequency", true},
                                                           {"contiguous", true}}};
  return kNames;
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

namespace {

bool Identified(ObjectKind kind) { return kind != ObjectKind::kNone && kind != ObjectKind::kJit && kind != ObjectKind::kVsyscall; }

}  // namespace

std::string KeyOf(const ObjectInfo& object) {
  std::string key = {kKindLetters[static_cast<size_t>(object.kind)], ':'};
  if (!Identified(object.kind)) return key;
  key += object.build_id.empty() ? "=" + object.path : HexEncode(object.build_id);
  return object.kind == ObjectKind::kKernel ? key + "/" + object.reference : key;
}

uint64_t Population::branch_count() const {
  uint64_t sum = 0;
  for (const auto& [pair, counts] : branches) sum = SaturatingAdd(sum, counts.fields[kCount]);
  return sum;
}

uint32_t Data::Intern(const ObjectInfo& given) {
  ObjectInfo object = given;
  // Recorders pad short ids with zeros; a real one of 20 bytes does not end in eight of them.
  constexpr size_t kLeastPadding = 4;
  const size_t last = object.build_id.find_last_not_of('\0');
  if (last != std::string::npos && object.build_id.size() - (last + 1) >= kLeastPadding) object.build_id.resize((last + 4) & ~size_t{3});
  // What is one object for all hosts has nothing of its own: a path kept for it would be lost in the file.
  if (!Identified(object.kind)) object = {.kind = object.kind, .build_id = "", .path = "", .reference = ""};
  std::string key = KeyOf(object);
  auto [it, fresh] = index_.try_emplace(key, static_cast<uint32_t>(objects_.size()));
  if (fresh) {
    objects_.push_back(std::move(object));
    keys_.push_back(std::move(key));
  } else {
    ObjectInfo& known = objects_[it->second];
    if (!object.path.empty() && (known.path.empty() || object.path < known.path)) known.path = object.path;
  }
  return it->second;
}

bool Data::Placed(uint32_t object) const {
  const ObjectKind kind = objects_[object].kind;
  return kind != ObjectKind::kNone && kind != ObjectKind::kJit;
}

Location Data::LocationOf(uint32_t object, uint64_t offset) const { 
  if (Placed(object)) return {object, offset};
  constexpr uint64_t kKernelHalf = uint64_t{1} << 63;
  return {object, objects_[object].kind == ObjectKind::kNone ? offset & kKernelHalf : 0};
}

Status Data::Add(const Data& other) {
  if (other.unit != unit) {
    return FailedPrecondition("counts of " + std::string(UnitName(unit)) + " and of " + std::string(UnitName(other.unit)) + " cannot be added; merge the recordings with one --weight");
  }
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < other.object_count(); ++i) ids.push_back(Intern(other.objects_[i]));
  auto here = [&](const Location& location) { return Location{ids[location.object], location.offset}; };
  for (const auto& [name, theirs] : other.populations_) {
    Population& ours = populations_[name];
    for (size_t i = 0; i < kFacts; ++i) {
      ours.facts[i] = FactNames()[i].greatest ? std::max(ours.facts[i], theirs.facts[i]) : SaturatingAdd(ours.facts[i], theirs.facts[i]);
    }
    for (const auto& [rule, count] : theirs.rules) ours.rules[rule] = SaturatingAdd(ours.rules[rule], count);
    for (const auto& [pair, counts] : theirs.branches) {
      BranchCounts& sum = ours.branches[{here(pair.first), here(pair.second)}];
      sum.kind = std::max(sum.kind, counts.kind);
      for (size_t i = 0; i < kBranchFields; ++i) sum.fields[i] = SaturatingAdd(sum.fields[i], counts.fields[i]);
    }
    for (const auto& [key, counts] : theirs.ranges) {
      RangeCounts& sum = ours.ranges[{here(key.start), key.end}];
      for (size_t i = 0; i < kRangeFields; ++i) sum.fields[i] = SaturatingAdd(sum.fields[i], counts.fields[i]);
    }
    for (const auto& [location, count] : theirs.ips) {
      uint64_t& sum = ours.ips[here(location)];
      sum = SaturatingAdd(sum, count);
    }
  }
  return OkStatus();
}

Status Data::Weigh(Unit wanted) {
  if (unit == wanted) return OkStatus();
  if (unit != Unit::kRecords) return FailedPrecondition("its counts are of " + std::string(UnitName(unit)) + " already");
  constexpr uint64_t kUnitsPerSample = 1000, kNsPerUnit = 1000;
  for (auto& [name, population] : populations_) {
    const uint64_t branches = population.branch_count(), samples = population.facts[kSampleTotal];
    if (wanted == Unit::kCpuSeconds && samples && population.facts[kCpuNs] == 0) {
      return FailedPrecondition("the time on CPUs is not known (it is for clock events only); say --weight samples or records");
    }
    const uint64_t weight = wanted == Unit::kSamples ? samples * kUnitsPerSample : population.facts[kCpuNs] / kNsPerUnit;
    if (branches) {
      for (auto& [pair, counts] : population.branches) {
        for (uint64_t& field : counts.fields) field = Scaled(field, weight, branches);
      }
      for (auto& [key, counts] : population.ranges) {
        for (uint64_t& field : counts.fields) field = Scaled(field, weight, branches);
      }
    }
    for (auto& [location, count] : population.ips) count = Scaled(count, weight, std::max<uint64_t>(samples, 1));
  }
  unit = wanted;
  return OkStatus();
}

}  // namespace brink::aggregate
