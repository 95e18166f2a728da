// Counts samples as they come, by source and where asked by container and time slice, and writes the aggregate file
// now and then: recordings that may take days.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "aggregate/data.h"
#include "report/aggregate.h"
#include "report/program.h"

namespace brink::report {

struct CollectOptions {
  std::string path;            // of the aggregate file
  bool by_container = false;   // needs cgroups in the samples
  uint64_t slice_ns = 0;       // 0: no time slices
  uint64_t wall_offset_ns = 0; // wall clock = sample time + this
  uint64_t write_every_ns = 60'000'000'000;  // of sample time
  size_t max_rows = 1 << 19;   // of all groups together; above it those seen least are dropped, and counted
};

// Give it to LoadOptions::observe with observe_only. One thread. The Program outlives it.
class AggregateCollector : public StackObserver {
 public:
  AggregateCollector(const Program* program, CollectOptions options) : program_(*program), options_(std::move(options)) {}
  void OnSample(const SampleView& sample) override;
  void OnStack(const SampleView&, const CleanStack&) override {}

  // The end: everything counted, with what the whole recording says about itself. The error of an earlier write, too.
  Status Finish();

 private:
  struct Group {
    Aggregator aggregator;
    uint64_t cpu_ns = 0;
    uint64_t pruned = 0;
    explicit Group(const symbol::AddressSpaces* spaces) : aggregator(spaces) {}
  };
  std::string NameOf(const SampleView& sample) const;
  aggregate::Data Snapshot(bool finished) const;
  void Prune();

  const Program& program_;
  const CollectOptions options_;
  std::map<std::string, Group> groups_;
  uint64_t cpu_ns_before_ = 0, next_write_ = 0;
  size_t rows_ = 0;
  Status status_;
};

}  // namespace brink::report
