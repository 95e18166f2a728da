// Internals of the prober: one function a feature, asked for on demand and remembered.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "kernel/branch_plan.h"
#include "kernel/perf_event.h"
#include "probe/feature.h"

namespace brink::probe {

// What samples of a known loop showed about the branch hardware. Made once.
struct BranchStudy {
  Status status;          // not ok: no stacks, and why
  BranchPlan plan;
  int samples = 0, entries = 0;
  int known = 0;          // entries that are branches of the loop
  int wrong = 0;          // entries that start in the loop and are none of its branches
  int with_prediction = 0, with_cycles = 0, with_type = 0, right_type = 0;
  int kernel = 0;         // entries from kernel addresses, in the kernel recording
  Status kernel_status;
  size_t deepest = 0;
};

class Prober {
 public:
  explicit Prober(Overrides overrides);

  // The finding, made at the first call. Findings ask for those they build on, so overrides reach everywhere.
  const Finding& Get(Feature feature);
  bool Has(Feature feature) { return Get(feature).on; }

  const BranchStudy& Study();

  MachineFacts facts;
  OpenContext open;
  FeatureSet Finish() const;

 private:
  Overrides overrides_;
  std::optional<BranchStudy> study_;
  std::array<std::optional<Finding>, kFeatureCount> findings_;
};

using ProbeFunction = Finding (*)(Prober&);
ProbeFunction ProbeFunctionOf(Feature feature);

MachineFacts ReadFacts();

// System (probe_system.cc).
Finding ProbeBtf(Prober&);
Finding ProbeKernelRt(Prober&);
Finding ProbeTracefs(Prober&);
Finding ProbeBpffs(Prober&);
Finding ProbeKallsyms(Prober&);
Finding ProbePtrace(Prober&);
Finding ProbeSigtrap(Prober&);
Finding ProbeCgroupV2(Prober&);
Finding ProbeCgroupV1(Prober&);
Finding ProbeCgroupEvents(Prober&);
// BPF program types (probe_bpf.cc, probe_user_probes.cc).
Finding ProbeBpfPerfEvent(Prober&);
Finding ProbeBpfRawTp(Prober&);
Finding ProbeBpfTpBtf(Prober&);
Finding ProbeBpfTracepoint(Prober&);
Finding ProbeBpfKprobe(Prober&);
Finding ProbeBpfKprobeMulti(Prober&);
Finding ProbeBpfUprobe(Prober&);
Finding ProbeBpfUretprobe(Prober&);
Finding ProbeBpfUretprobeSeccomp(Prober&);
Finding ProbeBpfUprobeMulti(Prober&);
Finding ProbeBpfUprobeMultiProcess(Prober&);
Finding ProbeBpfFentry(Prober&);
Finding ProbeBpfFexit(Prober&);
Finding ProbeBpfLsm(Prober&);
// BPF helpers (probe_helpers.cc).
Finding ProbeBpfRingbuf(Prober&);
Finding ProbeBpfLoop(Prober&);
Finding ProbeBpfFindVma(Prober&);
Finding ProbeBpfTaskWork(Prober&);
Finding ProbeBpfReadBranches(Prober&);
Finding ProbeBpfSnapshot(Prober&);
// perf events (probe_perf.cc) and branch stacks (probe_branch.cc).
Finding ProbePerfClock(Prober&);
Finding ProbePerfHardware(Prober&);
Finding ProbePerfOverflow(Prober&);
Finding ProbePerfBreakpoint(Prober&);
Finding ProbePerfExecBreakpoint(Prober&);
Finding ProbeBranchStack(Prober&);
Finding ProbeBranchKernel(Prober&);
Finding ProbeBranchMispredict(Prober&);
Finding ProbeBranchCycles(Prober&);
Finding ProbeBranchType(Prober&);
Finding ProbeBranchTypeSave(Prober&);
Finding ProbeBranchHwIndex(Prober&);
Finding ProbeBranchPrivSave(Prober&);
Finding ProbeBranchCounters(Prober&);
Finding ProbeBranchCallStack(Prober&);
Finding ProbeBranchHeldEvent(Prober&);
Finding ProbeBranchSnapshotLive(Prober&);
// Sources (probe_source.cc): from the above only.
Finding ProbeSourceLbr(Prober&);
Finding ProbeSourceWalk(Prober&);
Finding ProbeSourceWalkTask(Prober&);
Finding ProbeSourceHop(Prober&);
Finding ProbeSourceStep(Prober&);

BranchStudy StudyBranches(const MachineFacts& facts, const OpenContext& open);

// Runs `child` in a forked process and gives its exit status (128+signal when killed); -1 where fork failed or it took
// longer than `timeout_ms`.
int RunChild(const std::function<int()>& child, int timeout_ms = 2000);
// Keeps this thread in user mode for about so long of its CPU time.
void BurnCpu(int milliseconds);
// "EPERM"-like text of an errno: "Operation not permitted".
std::string ErrnoText(int error);
// Of a Status of OpenPerfEvent, "event NAME: REASON; REMEDY": the two apart.
Finding OffFrom(const Status& status);
// "FEATURE: its reason", with its remedy: for what builds on it.
Finding OffBecauseOf(Prober& prober, Feature needed);
// An event of this thread, by name, as an explained finding when it cannot be opened.
StatusOr<UniqueFd> OpenOwnEvent(const char* name, const SamplingSpec& sampling);

}  // namespace brink::probe
