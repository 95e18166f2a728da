#include "report/aggregate_collector.h"

#include "aggregate/file.h"
#include "container/cgroup_path.h"
#include "report/aggregate_io.h"
#include "report/quality.h"

namespace brink::report {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace

// SOURCE, SOURCE/CONTAINER or SOURCE/CONTAINER/SLICE; "-" stands for no container.
std::string AggregateCollector::NameOf(const SampleView& sample) const {
  std::string name = sample.source == BRINK_SOURCE_NONE ? "perf" : std::string(SourceName(sample.source));
  if (!options_.by_container && options_.slice_ns == 0) return name;
  std::string container = "-";
  if (auto path = program_.cgroups.find(sample.cgroup); options_.by_container && path != program_.cgroups.end()) {
    const CgroupIdentity identity = IdentifyCgroup(path->second);
    if (!identity.container_id.empty()) container = identity.container_id;
    else if (!identity.unit.empty()) container = identity.unit;
  }
  name += "/" + container;
  if (options_.slice_ns == 0) return name;
  const uint64_t wall = sample.time + options_.wall_offset_ns;
  return name + "/" + std::to_string((wall - wall % options_.slice_ns) / kSecond);
}

void AggregateCollector::OnSample(const SampleView& sample) {
  auto group = groups_.try_emplace(NameOf(sample), &program_.spaces).first;
  const size_t rows = group->second.aggregator.rows();
  group->second.aggregator.Add(sample);
  rows_ += group->second.aggregator.rows() - rows;
  if (rows_ > options_.max_rows) Prune();
  group->second.cpu_ns += program_.facts.cpu_ns - cpu_ns_before_;
  cpu_ns_before_ = program_.facts.cpu_ns;
  if (sample.time < next_write_) return;
  if (next_write_) {
    Status written = aggregate::Write(Snapshot(false), options_.path);
    if (status_.ok()) status_ = written;
  }
  next_write_ = sample.time + options_.write_every_ns;
}

// Half of the room is free afterwards, so this is rare; what is executed often comes back above the others at once.
void AggregateCollector::Prune() {
  rows_ = 0;
  for (auto& [name, group] : groups_) {
    group.pruned += group.aggregator.Prune(0.5);
    rows_ += group.aggregator.rows();
  }
}

aggregate::Data AggregateCollector::Snapshot(bool finished) const {
  aggregate::Data data;
  for (const auto& [name, group] : groups_) {
    AddToData(group.aggregator.result(), program_.objects, name, &data);
    data.population(name).facts[aggregate::kCpuNs] = group.cpu_ns;
    data.population(name).facts[aggregate::kFrequency] = program_.facts.most_frequent;
    if (group.pruned) data.population(name).rules[std::string(kRareDropped)] = group.pruned;
  }
  // What belongs to the recording as a whole stands with its first group (or with an empty one), so that sums are right.
  const std::string first = groups_.empty() ? "perf" : groups_.begin()->first;
  auto& facts = data.population(first).facts;
  facts[aggregate::kInputs] = 1;
  facts[aggregate::kLostSamples] = program_.facts.lost_samples;
  facts[aggregate::kLostRecords] = program_.facts.lost_records;
  facts[aggregate::kUnfinished] = !finished || program_.facts.problem_count != 0;
  return data;
}

Status AggregateCollector::Finish() {
  Status written = aggregate::Write(Snapshot(true), options_.path);
  return status_.ok() ? written : status_;
}

}  // namespace brink::report
