#include "kernel/branch_plan.h"

#include <cerrno>
#include <unistd.h>

#include <absl/strings/str_cat.h>

namespace brink {
namespace {

constexpr uint64_t kBrsMinPeriod = 17;  // the kernel subtracts the depth of 16
// Taken branches a second of a busy core, roughly: turns a rate into BRS's fixed period.
constexpr uint64_t kBusyBranchesPerSecond = 1'000'000'000;

EventSpec CyclesEvent(uint64_t flags) {
  EventSpec event;
  event.name = "cycles";
  event.type = PERF_TYPE_HARDWARE;
  event.config = PERF_COUNT_HW_CPU_CYCLES;
  // The stack's privilege is in the flags; a user-only recording also leaves the kernel out of the samples.
  event.exclude_kernel = !(flags & PERF_SAMPLE_BRANCH_KERNEL);
  event.exclude_user = !(flags & PERF_SAMPLE_BRANCH_USER);
  event.exclude_hv = !(flags & PERF_SAMPLE_BRANCH_HV);
  return event;
}

uint64_t ExtrasKnown() {
  uint64_t bits = 0;
  for (const BranchFlag& flag : BranchFlags()) bits |= flag.optional ? flag.bit : 0;
  return bits;
}

// Opens with all extras, then with fewer. The flags of the first success, or the errno of the bare request.
struct Settled {
  int error = 0;
  uint64_t flags = 0;
};

Settled SettleExtras(const EventSpec& event, SamplingSpec sampling, uint64_t flags, uint64_t extras, const TryOpen& try_open) {
  auto open = [&](uint64_t all) {
    sampling.branch_sample_type = all;
    return try_open(MakeAttr(event, sampling));
  };
  if (open(flags | extras) == 0) return {0, flags | extras};
  if (int error = open(flags); error != 0 || extras == 0) return {error, 0};
  uint64_t kept = 0;
  for (const BranchFlag& flag : BranchFlags()) {
    if (extras & flag.bit && open(flags | kept | flag.bit) == 0) kept |= flag.bit;
  }
  return {0, flags | kept};
}

bool IsBrsEvent(const EventSpec& event) { return event.type == PERF_TYPE_RAW ? event.config == 0xc4 : event.pmu == "cpu" && (event.config & 0xff) == 0xc4; }

// Zen 3: event 0xC4, fixed period, flags exactly ANY and privilege.
StatusOr<BranchPlan> PlanBrs(const BranchRequest& request, const TryOpen& try_open, int plain_error, const OpenContext& context) {
  BranchPlan plan;
  plan.event = CyclesEvent(request.flags);
  plan.event.name = "branch-brs";
  plan.event.type = PERF_TYPE_RAW;
  plan.event.config = 0xc4;
  uint64_t period = request.period;
  if (period == 0 && request.frequency) {
    period = std::max<uint64_t>(kBusyBranchesPerSecond / request.frequency | 1, kBrsMinPeriod);
    plan.notes.push_back(absl::StrCat("this CPU's branch records (BRS) need a fixed period: every ", period, " taken branches instead of ",
                                      request.frequency, " Hz; set it with -c"));
  }
  if (period < kBrsMinPeriod) period = kBrsMinPeriod;
  plan.sampling.period = period;
  plan.sampling.branch_sample_type = PERF_SAMPLE_BRANCH_ANY | (request.flags & kBranchPlmAll);
  plan.dropped_extras = request.extras;
  if ((request.flags & ~kBranchPlmAll) != PERF_SAMPLE_BRANCH_ANY) {
    plan.kinds_in_software = true;
    plan.notes.push_back("BRS records every kind of branch; choose kinds when reporting (--where)");
  }
  if (int error = try_open(plan.Attr()); error != 0) {
    return ExplainOpenError(plain_error ? plain_error : error, plan.Attr(), {}, plan.event.name, context);
  }
  if (request.event && !IsBrsEvent(*request.event)) {
    plan.notes.push_back("event " + request.event->name + " carries no branch stack on this CPU; sampling taken branches (branch-brs) instead");
  }
  return plan;
}

}  // namespace

const std::vector<BranchFlag>& BranchFlags() {
  static const std::vector<BranchFlag> flags = {
      {PERF_SAMPLE_BRANCH_USER, "u", false},
      {PERF_SAMPLE_BRANCH_KERNEL, "k", false},
      {PERF_SAMPLE_BRANCH_HV, "hv", false},
      {PERF_SAMPLE_BRANCH_ANY, "any", false},
      {PERF_SAMPLE_BRANCH_ANY_CALL, "any_call", false},
      {PERF_SAMPLE_BRANCH_ANY_RETURN, "any_ret", false},
      {PERF_SAMPLE_BRANCH_IND_CALL, "ind_call", false},
      {PERF_SAMPLE_BRANCH_ABORT_TX, "abort_tx", false},
      {PERF_SAMPLE_BRANCH_IN_TX, "in_tx", false},
      {PERF_SAMPLE_BRANCH_NO_TX, "no_tx", false},
      {PERF_SAMPLE_BRANCH_COND, "cond", false},
      {PERF_SAMPLE_BRANCH_CALL_STACK, "stack", false},
      {PERF_SAMPLE_BRANCH_IND_JUMP, "ind_jmp", false},
      {PERF_SAMPLE_BRANCH_CALL, "call", false},
      {PERF_SAMPLE_BRANCH_NO_FLAGS, "no_flags", true},
      {PERF_SAMPLE_BRANCH_NO_CYCLES, "no_cycles", true},
      {kBranchTypeSave, "save_type", true},
      {kBranchHwIndex, "hw_index", true},
      {kBranchPrivSave, "priv", true},
      {kBranchCounters, "counter", true},
  };
  return flags;
}

std::string BranchFlagNames(uint64_t flags) {
  std::string out;
  for (const BranchFlag& flag : BranchFlags()) {
    if (flags & flag.bit) absl::StrAppend(&out, out.empty() ? "" : ",", flag.name);
  }
  return out;
}

TryOpen TryOpenOnSelf() {
  return [](const perf_event_attr& attr) {
    int fd = RawPerfEventOpen(attr, {.pid = 0});
    if (fd < 0) return -fd;
    ::close(fd);
    return 0;
  };
}

StatusOr<BranchPlan> PlanBranchEvent(const CpuInfo& cpu, const BranchRequest& request, const TryOpen& try_open,
                                     const OpenContext& context) {
  uint64_t extras = request.extras & ExtrasKnown();
  BranchPlan plan;
  plan.event = request.event ? *request.event : CyclesEvent(request.flags);
  if (cpu.vendor == CpuVendor::kAmd && plan.event.precise) {
    // precise_ip sends the event to IBS, which has no branch stack.
    plan.event.precise = 0;
    plan.notes.push_back("AMD's precise events carry no branch stack: sampling without :p");
  }
  plan.sampling.frequency = request.frequency;
  plan.sampling.period = request.period;
  Settled settled = SettleExtras(plan.event, plan.sampling, request.flags, extras, try_open);
  if (settled.error != 0) {
    bool may_be_brs = cpu.vendor == CpuVendor::kAmd && !cpu.amd_lbr_v2 && (request.frequency || request.period);
    if (may_be_brs && (settled.error == EINVAL || settled.error == EOPNOTSUPP)) return PlanBrs(request, try_open, settled.error, context);
    plan.sampling.branch_sample_type = request.flags;
    return ExplainOpenError(settled.error, plan.Attr(), {}, plan.event.name, context);
  }
  plan.sampling.branch_sample_type = settled.flags;
  plan.dropped_extras = extras & ~settled.flags;
  return plan;
}

}  // namespace brink
