#include "probe/feature.h"

#include <cstdlib>

#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "base/strings.h"

namespace brink {
namespace {

using F = Feature;
constexpr FeatureInfo kFeatures[] = {
    {F::kBtf, "kernel.btf", "kernel", "the kernel describes its types (BTF)"},
    {F::kKernelRt, "kernel.rt", "kernel", "a PREEMPT_RT kernel"},
    {F::kTracefs, "kernel.tracefs", "kernel", "tracepoint ids are readable"},
    {F::kBpffs, "kernel.bpffs", "kernel", "the BPF file system is mounted"},
    {F::kKallsyms, "kernel.kallsyms", "kernel", "kernel symbols have addresses"},
    {F::kPtrace, "kernel.ptrace", "kernel", "a child is seized, stepped and let go"},
    {F::kSigtrap, "kernel.sigtrap", "kernel", "a clock event stops its thread by SIGTRAP"},
    {F::kCgroupV2, "cgroup.v2", "cgroup", "a cgroup v2 hierarchy is mounted"},
    {F::kCgroupV1, "cgroup.v1", "cgroup", "cgroup v1 hierarchies are mounted"},
    {F::kCgroupEvents, "cgroup.events", "cgroup", "a perf event counts for our own cgroup"},
    {F::kBpfPerfEvent, "bpf.perf_event", "bpf programs", "runs at a clock event"},
    {F::kBpfRawTp, "bpf.raw_tp", "bpf programs", "raw tracepoint"},
    {F::kBpfTpBtf, "bpf.tp_btf", "bpf programs", "raw tracepoint with typed arguments"},
    {F::kBpfTracepoint, "bpf.tracepoint", "bpf programs", "tracepoint"},
    {F::kBpfKprobe, "bpf.kprobe", "bpf programs", "kprobe"},
    {F::kBpfKprobeMulti, "bpf.kprobe_multi", "bpf programs", "many kprobes at once"},
    {F::kBpfUprobe, "bpf.uprobe", "bpf programs", "uprobe"},
    {F::kBpfUretprobe, "bpf.uretprobe", "bpf programs", "return uprobe"},
    {F::kBpfUretprobeSeccomp, "bpf.uretprobe_seccomp", "bpf programs", "return uprobe in a process under seccomp"},
    {F::kBpfUprobeMulti, "bpf.uprobe_multi", "bpf programs", "many uprobes at once"},
    {F::kBpfUprobeMultiProcess, "bpf.uprobe_multi_process", "bpf programs", "those of one process are met by all of its threads"},
    {F::kBpfFentry, "bpf.fentry", "bpf programs", "kernel function entry by trampoline"},
    {F::kBpfFexit, "bpf.fexit", "bpf programs", "kernel function exit by trampoline"},
    {F::kBpfLsm, "bpf.lsm", "bpf programs", "security hook"},
    {F::kBpfRingbuf, "bpf.ringbuf", "bpf helpers", "a record goes through the ring buffer"},
    {F::kBpfLoop, "bpf.loop", "bpf helpers", "bpf_loop"},
    {F::kBpfFindVma, "bpf.find_vma", "bpf helpers", "bpf_find_vma in the clock interrupt"},
    {F::kBpfTaskWork, "bpf.task_work", "bpf helpers", "work on the way back to user space"},
    {F::kBpfReadBranches, "bpf.read_branch_records", "bpf helpers", "bpf_read_branch_records loads"},
    {F::kBpfSnapshot, "bpf.branch_snapshot", "bpf helpers", "bpf_get_branch_snapshot has an implementation"},
    {F::kPerfClock, "perf.cpu_clock", "perf", "the software clock samples"},
    {F::kPerfHardware, "perf.hardware", "perf", "a hardware event counts"},
    {F::kPerfOverflow, "perf.overflow", "perf", "a hardware event samples"},
    {F::kPerfBreakpoint, "perf.breakpoint", "perf", "a watchpoint counts writes"},
    {F::kPerfExecBreakpoint, "perf.exec_breakpoint", "perf", "an execution breakpoint counts"},
    {F::kBranchStack, "branch.stack", "branch records", "samples carry true branches of a known loop"},
    {F::kBranchKernel, "branch.kernel", "branch records", "kernel branches too"},
    {F::kBranchMispredict, "branch.mispredict", "branch records", "prediction is recorded"},
    {F::kBranchCycles, "branch.cycles", "branch records", "cycles are recorded"},
    {F::kBranchType, "branch.type", "branch records", "kinds are recorded, and right"},
    {F::kBranchTypeSave, "branch.type_save", "branch records", "flag save_type is accepted"},
    {F::kBranchHwIndex, "branch.hw_index", "branch records", "flag hw_index is accepted"},
    {F::kBranchPrivSave, "branch.priv_save", "branch records", "flag priv is accepted"},
    {F::kBranchCounters, "branch.counters", "branch records", "flag counter is accepted"},
    {F::kBranchCallStack, "branch.call_stack", "branch records", "flag stack is accepted"},
    {F::kBranchHeldEvent, "branch.held_event", "branch records", "an event without period keeps the hardware on"},
    {F::kBranchSnapshotLive, "branch.snapshot", "branch records", "a snapshot holds a known loop's branches"},
    {F::kSourceLbr, "source.lbr", "sources", "branch hardware"},
    {F::kSourceWalk, "source.walk", "sources", "software branch records in BPF"},
    {F::kSourceWalkTask, "source.walk_task", "sources", "walk on the way back to user space (task mode)"},
    {F::kSourceHop, "source.hop", "sources", "a hardware breakpoint moved by ptrace"},
    {F::kSourceStep, "source.step", "sources", "ptrace single step"},
};
static_assert(std::size(kFeatures) == kFeatureCount);

constexpr bool InOrder() {
  for (size_t i = 0; i < kFeatureCount; ++i) {
    if (static_cast<size_t>(kFeatures[i].id) != i) return false;
  }
  return true;
}
static_assert(InOrder());

}  // namespace

std::span<const FeatureInfo> AllFeatures() { return kFeatures; }
const FeatureInfo& InfoOf(Feature feature) { return kFeatures[static_cast<size_t>(feature)]; }

StatusOr<Feature> ParseFeature(std::string_view name) {
  std::vector<std::string> names;
  for (const FeatureInfo& info : kFeatures) {
    if (name == info.name) return info.id;
    names.emplace_back(info.name);
  }
  auto near = NearestNames(name, names, 1);
  return InvalidArgument("unknown feature '" + EscapeForTerminal(name) + "'" + (near.empty() ? "" : "; did you mean '" + near[0] + "'?"));
}

FeatureSet::FeatureSet(std::map<Feature, Finding> findings, MachineFacts facts) : facts_(std::move(facts)) {
  for (const FeatureInfo& info : kFeatures) {
    auto it = findings.find(info.id);
    findings_[static_cast<size_t>(info.id)] = it != findings.end() ? std::move(it->second) : Finding::Off("not probed");
  }
}

SourceChoice FeatureSet::AutoSource() const {
  if (Has(F::kSourceLbr)) return {"lbr", "branch hardware, proved on a known loop" + (facts_.branch_depth ? absl::StrCat(", ", facts_.branch_depth, " deep") : std::string())};
  std::string no_lbr = "no branch hardware (" + Get(F::kSourceLbr).reason + ")";
  if (Has(F::kSourceWalk)) {
    return {"walk", no_lbr + "; software branch records in BPF work" + (Has(F::kSourceWalkTask) ? ", on the way back to user space" : ", in the clock interrupt")};
  }
  std::string no_walk = no_lbr + ", walk does not work (" + Get(F::kSourceWalk).reason + ")";
  if (Has(F::kSourceHop)) return {"hop", no_walk + "; ptrace and a hardware breakpoint do"};
  if (Has(F::kSourceStep)) return {"step", no_walk + ", no hardware breakpoint (" + Get(F::kSourceHop).reason + "); single step works"};
  return {"", no_walk + ", and ptrace does not work (" + Get(F::kSourceStep).reason + ")"};
}

Status FeatureSet::Require(Feature feature) const {
  const Finding& finding = Get(feature);
  if (finding.on) return OkStatus();
  return FailedPrecondition(absl::StrCat(InfoOf(feature).name, " does not work here: ", finding.reason, finding.remedy.empty() ? "" : "; ", finding.remedy));
}

Status ParseOverrides(std::string_view text, Overrides* overrides) {
  for (std::string_view item : Split(text, ',')) {
    item = Trim(item);
    if (item.empty()) continue;
    size_t equals = item.find('=');
    std::string_view state = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (state != "on" && state != "off") {
      return InvalidArgument("'" + EscapeForTerminal(item) + "' is no override; write FEATURE=on or FEATURE=off");
    }
    ASSIGN_OR_RETURN(Feature feature, ParseFeature(item.substr(0, equals)));
    (*overrides)[feature] = state == "on";
  }
  return OkStatus();
}

StatusOr<Overrides> OverridesFromEnv() {
  Overrides overrides;
  const char* text = std::getenv("BRINK_FAKE");
  if (text) RETURN_IF_ERROR(Annotate(ParseOverrides(text, &overrides), "environment BRINK_FAKE"));
  return overrides;
}

}  // namespace brink
