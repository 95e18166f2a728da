#include "source/lbr.h"

#include <cerrno>

#include <absl/strings/str_cat.h>

#include "base/units.h"
#include "kernel/perf_pmu.h"
#include "session/event_source.h"

namespace brink {
namespace {

constexpr uint64_t kKinds = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_ANY_RETURN | PERF_SAMPLE_BRANCH_IND_CALL |
                            PERF_SAMPLE_BRANCH_COND | PERF_SAMPLE_BRANCH_CALL_STACK | PERF_SAMPLE_BRANCH_IND_JUMP | PERF_SAMPLE_BRANCH_CALL |
                            PERF_SAMPLE_BRANCH_ABORT_TX;

// Kernel and user, as far as the event samples them: perf's rule when -j names no privilege.
uint64_t PrivilegesOf(const std::optional<EventSpec>& event) {
  if (!event) return PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL;
  return (event->exclude_user ? 0u : uint64_t{PERF_SAMPLE_BRANCH_USER}) | (event->exclude_kernel ? 0u : uint64_t{PERF_SAMPLE_BRANCH_KERNEL});
}

}  // namespace

uint32_t BranchDepth(const CpuInfo& cpu, const KernelRoots& roots) {
  uint32_t depth = cpu.amd_brs ? 16 : cpu.amd_lbr_depth;
  for (const std::string& pmu : CorePmus(roots)) {
    auto text = ReadPmuFile(roots, pmu, "caps/branches");
    auto number = text.ok() ? ParseUint(*text) : StatusOr<uint64_t>(text.status());
    if (number.ok()) depth = std::max(depth, static_cast<uint32_t>(std::min<uint64_t>(*number, BRINK_MAX_HW_BRANCHES)));
  }
  return depth ? depth : 32;
}

StatusOr<LbrSampling> MakeLbrSampling(const LbrRequest& request, const CpuInfo& cpu, const TryOpen& try_open, const OpenContext& context, uint32_t hardware_depth) {
  BranchRequest want;
  want.flags = request.flags;
  if (!(want.flags & kKinds)) want.flags |= PERF_SAMPLE_BRANCH_ANY;
  // Fields that a flag adds are extras: a kernel that does not know one still records.
  uint64_t extras = 0;
  for (const BranchFlag& flag : BranchFlags()) extras |= flag.optional ? flag.bit : 0;
  want.extras |= want.flags & extras;
  want.flags &= ~extras;
  // The index is a word that no consumer of brink needs, and it is missing from samples without a stack.
  want.extras &= ~(kBranchHwIndex | kBranchCounters);
  bool privilege_named = want.flags & kBranchPlmAll;
  if (!privilege_named) want.flags |= PrivilegesOf(request.event);
  want.event = request.event;
  want.frequency = request.frequency;
  want.period = request.period;

  auto plan = PlanBranchEvent(cpu, want, try_open, context);
  std::string note;
  int error = plan.ok() ? 0 : ErrnoOf(plan.status());
  if ((error == EACCES || error == EPERM) && !privilege_named && want.flags & PERF_SAMPLE_BRANCH_KERNEL) {
    note = "user branches only: " + Message(plan.status());
    want.flags &= ~uint64_t{PERF_SAMPLE_BRANCH_KERNEL};
    if (want.event) want.event->exclude_kernel = true;
    plan = PlanBranchEvent(cpu, want, try_open, context);
  }
  if (!plan.ok()) return Annotate(plan.status(), "--source lbr");

  LbrSampling sampling;
  sampling.event = plan->event;
  if (plan->sampling.period && !request.period) sampling.event.period = plan->sampling.period;
  sampling.notes = plan->notes;
  if (!note.empty()) sampling.notes.push_back(note);
  uint32_t depth = request.depth ? std::min(request.depth, hardware_depth) : hardware_depth;
  if (request.depth > hardware_depth) sampling.notes.push_back(absl::StrCat("this CPU records ", hardware_depth, " branches, not ", request.depth));
  sampling.source = EventSource::Lbr(plan->sampling.branch_sample_type, depth);
  return sampling;
}

StatusOr<LbrSampling> MakeLbrSampling(const LbrRequest& request) {
  CpuInfo cpu = CpuInfo::Read();
  return MakeLbrSampling(request, cpu, TryOpenOnSelf(), OpenContext::Read(), BranchDepth(cpu));
}

}  // namespace brink
