// The part of a recording's filter that BPF does not do, and the BRBE model, in front of the consumer that keeps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "brbe/stream.h"
#include "container/cgroup_names.h"
#include "filter/sample_filter.h"
#include "session/core.h"
#include "session/forwarding_consumer.h"
#include "session/recorder.h"

namespace brink {

// Splits the filter of a recording; hands on what passes. Like every consumer: called on the writer thread only.
class FilterConsumer : public ForwardingConsumer {
 public:
  // Null where there is nothing to filter. `in_bpf`: the source's program applies bpf_program(). `next` outlives this.
  // INVALID_ARGUMENT for what is known on the reading side only (symbols, objects, containers).
  static StatusOr<std::unique_ptr<FilterConsumer>> Create(const RecordFilter& filter, bool in_bpf, Consumer& next);

  // What the session is to evaluate in BPF.
  const std::optional<brink_filter_prog>& bpf_program() const { return program_; }
  // Whether anything is left for user space.
  bool needed() const { return model_.has_value() || !filter_.empty(); }
  // Statistics of both halves, after the session has stopped.
  void Report(const BpfCounters& counters, std::vector<StatLine>* lines) const;

  Status OnSample(const SampleView& sample) override;
  Status OnPerfRecord(const PerfRecordView& record) override;

 private:
  explicit FilterConsumer(Consumer& next) : ForwardingConsumer(next) {}

  std::optional<brink_filter_prog> program_;
  filter::SampleFilter filter_;
  std::optional<brbe::StreamModel> model_;
  std::unique_ptr<CgroupNames> cgroups_;  // where the expressions ask for cgroups, containers or pods
  bool follow_names_ = false;
  absl::flat_hash_map<uint32_t, std::string> names_;  // by tid; at most kMostNames
  std::vector<BranchEntry> entries_;
};

}  // namespace brink
