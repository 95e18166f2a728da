// --where and --brbe-model of `brink script`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brbe/stream.h"
#include "container/cgroup_names.h"
#include "filter/sample_filter.h"
#include "script/script.h"
#include "script/tasks.h"

namespace brink::script {

// What the expressions select. One thread.
class Selection {
 public:
  static StatusOr<Selection> Create(const Options& options);

  // Sees every record before the samples that depend on it.
  void Observe(const perfdata::Record& record);
  // Null: the sample is not wanted. Else the sample itself or a copy whose branches are what is left, valid until the
  // next call.
  const perfdata::Sample* Choose(const perfdata::Sample& sample);
  // A line each for filter and model, if there are any.
  void Describe(std::vector<std::string>* notes) const;

 private:
  Selection() = default;
  filter::SampleFilter filter_;
  std::optional<brbe::StreamModel> model_;
  std::optional<Tasks> tasks_;  // names, where the expressions ask for them
  std::unique_ptr<CgroupNames> cgroups_;  // likewise
  uint64_t first_time_ = 0;
  perfdata::Sample copy_;
  std::vector<BranchEntry> entries_;
};

}  // namespace brink::script
