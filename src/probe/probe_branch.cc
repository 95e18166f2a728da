// Branch stacks of the hardware, judged on a loop whose branches are known.
#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

#include <absl/strings/str_cat.h>
#include <bpf/bpf.h>

#include "probe/bpf_trial.h"
#include "probe/known_loop.h"
#include "probe/sample_ring.h"

namespace brink::probe {
namespace {

constexpr uint64_t kPeriod = 50'021;
constexpr uint64_t kAnyUser = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER;

void LookAt(const BranchEntry& entry, BranchStudy* study) {
  ++study->entries;
  Kind kind = Kind::kUnknown;
  if (!IsKnownBranch(entry, &kind)) {
    study->wrong += FromKnownLoop(entry);
    return;
  }
  ++study->known;
  study->with_prediction += entry.prediction() != Prediction::kUnknown;
  study->with_cycles += entry.cycles() != 0;
  study->with_type += entry.type() != PerfBranchType::kUnknown;
  study->right_type += entry.kind() == kind;
}

// Kernel branches: a second, short recording with system calls in it.
Status StudyKernel(const CpuInfo& cpu, const OpenContext& open, BranchStudy* study) {
  ASSIGN_OR_RETURN(BranchPlan plan, PlanBranchEvent(cpu, {.flags = kAnyUser | PERF_SAMPLE_BRANCH_KERNEL, .period = kPeriod}, TryOpenOnSelf(), open));
  ASSIGN_OR_RETURN(SampleRing ring, SampleRing::Open(plan.Attr()));
  RETURN_IF_ERROR(EnablePerfEvent(ring.fd()));
  for (int i = 0; i < 20'000 && study->kernel == 0; ++i) {
    ::syscall(SYS_getppid);
    if (i % 1000 != 999) continue;
    ring.Drain([&](uint64_t, std::span<const BranchEntry> stack) {
      for (const BranchEntry& entry : stack) study->kernel += entry.from >> 63;
    });
  }
  return OkStatus();
}

// Arm's branch records need more than the CPU, and nobody says which of it is missing.
Finding OffOnArm(const Status& status) {
  Finding finding = OffFrom(status);
  finding.remedy = "BRBE needs a CPU that has it (brink brbe diagnose), Linux 6.17 with CONFIG_ARM64_BRBE, firmware with MDCR_EL3.SBRBE = 1 and no hypervisor; record with --source walk instead";
  return finding;
}

Finding FlagFinding(Prober& prober, uint64_t flag) {
  if (!prober.Has(Feature::kBranchStack)) return OffBecauseOf(prober, Feature::kBranchStack);
  return prober.facts.branch_flags & flag ? Finding::On() : Finding::Off("this PMU or kernel refuses the flag");
}

// `some` of the loop's entries in sight carried the field.
Finding FieldFinding(Prober& prober, int BranchStudy::*count) {
  if (!prober.Has(Feature::kBranchStack)) return OffBecauseOf(prober, Feature::kBranchStack);
  const BranchStudy& study = prober.Study();
  if (study.*count == 0) return Finding::Off("the hardware does not say");
  return Finding::On(absl::StrCat(study.*count, " of ", study.known, " entries"));
}

}  // namespace

BranchStudy StudyBranches(const MachineFacts& facts, const OpenContext& open) {
  BranchStudy study;
  auto plan = PlanBranchEvent(facts.cpu, {.flags = kAnyUser, .period = kPeriod}, TryOpenOnSelf(), open);
  if (!plan.ok()) {
    study.status = plan.status();
    return study;
  }
  study.plan = *plan;
  auto ring = SampleRing::Open(plan->Attr());
  if (!ring.ok()) {
    study.status = ring.status();
    return study;
  }
  study.status = EnablePerfEvent(ring->fd());
  if (!study.status.ok()) return study;
  BurnCpu(20);
  (void)DisablePerfEvent(ring->fd());
  study.samples = ring->Drain([&](uint64_t, std::span<const BranchEntry> stack) {
    study.deepest = std::max(study.deepest, stack.size());
    for (const BranchEntry& entry : stack) LookAt(entry, &study);
  });
  study.kernel_status = StudyKernel(facts.cpu, open, &study);
  return study;
}

Finding ProbeBranchStack(Prober& prober) {
  if (!prober.Has(Feature::kPerfHardware)) return OffBecauseOf(prober, Feature::kPerfHardware);
  const BranchStudy& study = prober.Study();
  if (!study.status.ok()) return prober.facts.arch == "aarch64" ? OffOnArm(study.status) : OffFrom(study.status);
  if (study.samples == 0) return Finding::Off("the event opens, but delivers no samples", "this virtual machine's PMU has no overflow interrupt");
  if (study.entries == 0) return Finding::Off(absl::StrCat("none of ", study.samples, " samples carries a branch"), "the branch records are not passed to this virtual machine");
  if (study.known == 0) return Finding::Off(absl::StrCat("none of ", study.entries, " entries is a branch of the loop that ran"));
  if (study.wrong * 50 > study.known) {
    return Finding::Off(absl::StrCat(study.wrong, " entries start in the known loop and are none of its branches (", study.known, " are)"));
  }
  prober.facts.branch_event = study.plan.event.name;
  if (prober.facts.branch_depth == 0) prober.facts.branch_depth = static_cast<uint32_t>(study.deepest);
  for (const BranchFlag& flag : BranchFlags()) {
    // A privilege bit needs a kind beside it, a kind needs a privilege.
    uint64_t beside = flag.bit & kBranchPlmAll ? uint64_t{PERF_SAMPLE_BRANCH_ANY} : flag.optional ? kAnyUser : uint64_t{PERF_SAMPLE_BRANCH_USER};
    SamplingSpec sampling = study.plan.sampling;
    sampling.branch_sample_type = flag.bit | beside;
    if (TryOpenOnSelf()(MakeAttr(study.plan.event, sampling)) == 0) prober.facts.branch_flags |= flag.bit;
  }
  return Finding::On(absl::StrCat(prober.facts.branch_depth, " deep, event ", study.plan.event.name, ", ", study.known, " of ", study.entries,
                                  " entries known, ", study.wrong, " wrong, in ", study.samples, " samples; flags ",
                                  BranchFlagNames(prober.facts.branch_flags)));
}

Finding ProbeBranchKernel(Prober& prober) {
  if (!prober.Has(Feature::kBranchStack)) return OffBecauseOf(prober, Feature::kBranchStack);
  const BranchStudy& study = prober.Study();
  if (!study.kernel_status.ok()) return OffFrom(study.kernel_status);
  return study.kernel ? Finding::On() : Finding::Off("opens, but no kernel branch is recorded");
}

Finding ProbeBranchMispredict(Prober& prober) { return FieldFinding(prober, &BranchStudy::with_prediction); }
Finding ProbeBranchCycles(Prober& prober) { return FieldFinding(prober, &BranchStudy::with_cycles); }

Finding ProbeBranchType(Prober& prober) {
  Finding finding = FieldFinding(prober, &BranchStudy::with_type);
  const BranchStudy* study = finding.on && !finding.fake ? &prober.Study() : nullptr;
  if (study && study->right_type * 10 < study->with_type * 9) {
    return Finding::Off(absl::StrCat("only ", study->right_type, " of ", study->with_type, " kinds are right"), "brink reads the kinds from the code instead");
  }
  return finding;
}

Finding ProbeBranchTypeSave(Prober& prober) { return FlagFinding(prober, kBranchTypeSave); }
Finding ProbeBranchHwIndex(Prober& prober) { return FlagFinding(prober, kBranchHwIndex); }
Finding ProbeBranchPrivSave(Prober& prober) { return FlagFinding(prober, kBranchPrivSave); }
Finding ProbeBranchCounters(Prober& prober) { return FlagFinding(prober, kBranchCounters); }
Finding ProbeBranchCallStack(Prober& prober) { return FlagFinding(prober, PERF_SAMPLE_BRANCH_CALL_STACK); }

Finding ProbeBranchHeldEvent(Prober& prober) {
  if (!prober.Has(Feature::kPerfHardware)) return OffBecauseOf(prober, Feature::kPerfHardware);
  auto plan = PlanBranchEvent(prober.facts.cpu, {.flags = kAnyUser}, TryOpenOnSelf(), prober.open);
  if (!plan.ok()) {
    // Zen 3 and AMD before 6.12 refuse events without a period that carry a stack.
    return Finding::Off(Message(plan.status()), prober.Has(Feature::kBranchStack) ? "on-demand snapshots are not possible here; sample instead" : "");
  }
  return Finding::On();
}

Finding ProbeBranchSnapshotLive(Prober& prober) {
  for (Feature needed : {Feature::kBpfSnapshot, Feature::kBranchHeldEvent, Feature::kBpfRawTp}) {
    if (!prober.Has(needed)) return OffBecauseOf(prober, needed);
  }
  auto plan = PlanBranchEvent(prober.facts.cpu, {.flags = kAnyUser}, TryOpenOnSelf(), prober.open);
  if (!plan.ok()) return OffFrom(plan.status());
  SamplingSpec held = plan->sampling;
  held.disabled = false;
  held.pinned = true;
  auto event = OpenPerfEvent(MakeAttr(plan->event, held), {.pid = 0}, plan->event.name);
  if (!event.ok()) return OffFrom(event.status());
  brink_probe_stack stack = {};
  Trial trial{.program = "do_snapshot_live", .address = SYS_getppid, .attach = AttachSelf};
  trial.trigger = [] {
    RunKnownLoop(50);
    ::syscall(SYS_getppid);
  };
  trial.look = [&](bpf_object* object) {
    uint32_t zero = 0;
    int error = bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(object, "probe_stack"), &zero, &stack);
    return error ? ErrnoError(-error, "probe_stack") : OkStatus();
  };
  Finding finding = FindingOf(prober, RunTrial(trial));
  if (!finding.on) return finding;
  if (stack.bytes < 0) return Finding::Off("the snapshot fails: " + ErrnoText(static_cast<int>(-stack.bytes)));
  int known = 0, first = -1, all = static_cast<int>(std::min<int64_t>(stack.bytes / 24, BRINK_MAX_HW_BRANCHES));
  for (int i = 0; i < all; ++i) {
    if (!IsKnownBranch(stack.entries[i])) continue;
    if (known++ == 0) first = i;
  }
  if (known == 0) return Finding::Off(absl::StrCat("none of ", all, " entries is a branch of the loop that had just run: the snapshot is stale"));
  return Finding::On(absl::StrCat(all, " entries, ", known, " of the known loop, the newest of them at ", first));
}

}  // namespace brink::probe
