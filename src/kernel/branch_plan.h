// Which event and which branch flags give branch stacks on this CPU: chosen by vendor, settled by trying.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernel/cpu_info.h"
#include "kernel/perf_event.h"

namespace brink {

// One PERF_SAMPLE_BRANCH_* bit with perf's -j spelling.
struct BranchFlag {
  uint64_t bit;
  const char* name;
  bool optional;  // may be left out: adds a field, does not change which branches are recorded
};
// In bit order; privilege bits first.
const std::vector<BranchFlag>& BranchFlags();
// "any,u,save_type"
std::string BranchFlagNames(uint64_t flags);

struct BranchRequest {
  uint64_t flags = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER;  // what is to be recorded
  uint64_t extras = kBranchTypeSave | kBranchPrivSave;                // wanted where the kernel knows them
  std::optional<EventSpec> event;                                     // the user's -e; else by vendor
  uint64_t frequency = 0;                                             // at most one of these; both 0: counting (held open)
  uint64_t period = 0;
};

struct BranchPlan {
  EventSpec event;
  SamplingSpec sampling;                // branch_sample_type holds the flags that were accepted
  uint64_t dropped_extras = 0;          // of the request's extras
  bool kinds_in_software = false;       // hardware records every kind: what was asked for must be filtered later
  std::vector<std::string> notes;       // for the user: what was chosen differently, and why
  perf_event_attr Attr() const { return MakeAttr(event, sampling); }
};

// 0, or the errno of opening this attribute (and closing it again).
using TryOpen = std::function<int(const perf_event_attr&)>;
// Tries on the calling thread, any CPU: what a per-CPU open then needs on top is the right to do so.
TryOpen TryOpenOnSelf();

// Plans by `cpu`, falls back by trying: extras are dropped one by one, Zen 3 gets its own event with a fixed period and
// software filtering. The error is that of the plain request, explained. Pure apart from `try_open`.
StatusOr<BranchPlan> PlanBranchEvent(const CpuInfo& cpu, const BranchRequest& request, const TryOpen& try_open,
                                     const OpenContext& context);

}  // namespace brink
