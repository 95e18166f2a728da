// The lbr source, sampled: hardware branch stacks of Intel LBR and arch LBR, AMD BRS and LbrExtV2, Arm BRBE, Power BHRB.
//
// Which event, which period and which flags this CPU and kernel take is settled by kernel/branch_plan; the program that
// reads the stacks is the session's (session/event_source).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernel/branch_plan.h"
#include "session/source.h"

namespace brink {

struct LbrRequest {
  uint64_t flags = 0;                  // PERF_SAMPLE_BRANCH_*; no kind: ANY; no privilege: what the event samples
  std::optional<EventSpec> event;      // -e; else by CPU
  uint64_t frequency = 0, period = 0;  // one of them
  uint32_t depth = 0;                  // most entries kept; 0: the hardware's
};

struct LbrSampling {
  EventSpec event;                      // to sample; `event.period` is set where the hardware insists on a period
  std::unique_ptr<StackSource> source;
  std::vector<std::string> notes;       // what was chosen differently than asked, for the user
};

// The error says why there are no branch stacks and what to do. A user without the right to kernel branches gets user
// branches and a note, unless the kernel was asked for by name.
StatusOr<LbrSampling> MakeLbrSampling(const LbrRequest& request);
// The same with the machine as arguments. Pure apart from `try_open`.
StatusOr<LbrSampling> MakeLbrSampling(const LbrRequest& request, const CpuInfo& cpu, const TryOpen& try_open, const OpenContext& context, uint32_t hardware_depth);

// Depth by sysfs or CPUID; 32 where neither says.
uint32_t BranchDepth(const CpuInfo& cpu, const KernelRoots& roots = {});

}  // namespace brink
