#include "probe/prober.h"

#include <csignal>
#include <cstring>
#include <ctime>
#include <functional>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "probe/known_loop.h"
#include "probe/probe.h"

namespace brink {
namespace probe {
namespace {

// In the order of the enum, as AllFeatures().
constexpr ProbeFunction kFunctions[] = {
    ProbeBtf, ProbeKernelRt, ProbeTracefs, ProbeBpffs, ProbeKallsyms, ProbePtrace, ProbeSigtrap, ProbeCgroupV2, ProbeCgroupV1, ProbeCgroupEvents,
    ProbeBpfPerfEvent, ProbeBpfRawTp, ProbeBpfTpBtf, ProbeBpfTracepoint, ProbeBpfKprobe, ProbeBpfKprobeMulti, ProbeBpfUprobe, ProbeBpfUretprobe,
    ProbeBpfUretprobeSeccomp, ProbeBpfUprobeMulti, ProbeBpfUprobeMultiProcess, ProbeBpfFentry, ProbeBpfFexit, ProbeBpfLsm,
    ProbeBpfRingbuf, ProbeBpfLoop, ProbeBpfFindVma, ProbeBpfTaskWork, ProbeBpfReadBranches, ProbeBpfSnapshot,
    ProbePerfClock, ProbePerfHardware, ProbePerfOverflow, ProbePerfBreakpoint, ProbePerfExecBreakpoint,
    ProbeBranchStack, ProbeBranchKernel, ProbeBranchMispredict, ProbeBranchCycles, ProbeBranchType, ProbeBranchTypeSave, ProbeBranchHwIndex,
    ProbeBranchPrivSave, ProbeBranchCounters, ProbeBranchCallStack, ProbeBranchHeldEvent, ProbeBranchSnapshotLive,
    ProbeSourceLbr, ProbeSourceWalk, ProbeSourceWalkTask, ProbeSourceHop, ProbeSourceStep,
};
static_assert(std::size(kFunctions) == kFeatureCount);

int ReadInt(const char* path) {
  auto text = ReadFile(path, 64);
  return text.ok() ? std::atoi(text->c_str()) : 0;
}

}  // namespace

ProbeFunction ProbeFunctionOf(Feature feature) { return kFunctions[static_cast<size_t>(feature)]; }

MachineFacts ReadFacts() {
  MachineFacts facts;
  facts.cpu = CpuInfo::Read();
  struct utsname name = {};
  ::uname(&name);
  facts.kernel = name.release;
  facts.arch = name.machine;
  facts.cpus_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.paranoid = ReadInt("/proc/sys/kernel/perf_event_paranoid");
  facts.kptr_restrict = ReadInt("/proc/sys/kernel/kptr_restrict");
  facts.yama_scope = ReadInt("/proc/sys/kernel/yama/ptrace_scope");
  facts.unprivileged_bpf_disabled = ReadInt("/proc/sys/kernel/unprivileged_bpf_disabled");
  facts.max_sample_rate = ReadMaxSampleRate();
  facts.caps = CapSet::ReadEffective();
  facts.pmus = CorePmus();
  for (const std::string& pmu : facts.pmus) {
    auto depth = ReadFile("/sys/bus/event_source/devices/" + pmu + "/caps/branches", 64);
    auto number = depth.ok() ? ParseUint(Trim(*depth)) : StatusOr<uint64_t>(depth.status());
    if (number.ok()) facts.branch_depth = std::max(facts.branch_depth, static_cast<uint32_t>(*number));
  }
  if (facts.branch_depth == 0) facts.branch_depth = facts.cpu.amd_lbr_depth;
  return facts;
}

Prober::Prober(Overrides overrides) : facts(ReadFacts()), open(OpenContext::Read()), overrides_(std::move(overrides)) {}

const Finding& Prober::Get(Feature feature) {
  auto& slot = findings_[static_cast<size_t>(feature)];
  if (slot) return *slot;
  if (auto it = overrides_.find(feature); it != overrides_.end()) {
    slot = it->second ? Finding::On() : Finding::Off("switched off by an override");
    slot->fake = true;
    return *slot;
  }
  Finding made = ProbeFunctionOf(feature)(*this);
  slot = std::move(made);
  return *slot;
}

const BranchStudy& Prober::Study() {
  if (!study_) study_ = StudyBranches(facts, open);
  return *study_;
}

FeatureSet Prober::Finish() const {
  std::map<Feature, Finding> findings;
  for (const FeatureInfo& info : AllFeatures()) {
    if (const auto& slot = findings_[static_cast<size_t>(info.id)]) findings[info.id] = *slot;
  }
  return FeatureSet(std::move(findings), facts);
}

int RunChild(const std::function<int()>& child, int timeout_ms) {
  pid_t pid = ::fork();
  if (pid < 0) return -1;
  if (pid == 0) ::_exit(child());
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  struct pollfd wait = {pidfd.get(), POLLIN, 0};
  if (!pidfd.valid() || ::poll(&wait, 1, timeout_ms) <= 0) ::kill(pid, SIGKILL);
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void BurnCpu(int milliseconds) {
  struct timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  int64_t end = now.tv_sec * 1'000'000'000 + now.tv_nsec + milliseconds * int64_t{1'000'000};
  do {
    RunKnownLoop(2000);
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec * 1'000'000'000 + now.tv_nsec < end);
}

std::string ErrnoText(int error) { return std::strerror(error); }

Finding OffFrom(const Status& status) {
  std::string text = Message(status);
  if (size_t colon = text.find(": "); text.find("event ") == 0 && colon != text.npos) text.erase(0, colon + 2);
  size_t semicolon = text.find("; ");
  if (semicolon == text.npos) return Finding::Off(text);
  return Finding::Off(text.substr(0, semicolon), text.substr(semicolon + 2));
}

Finding OffBecauseOf(Prober& prober, Feature needed) {
  // Of a chain only the root is told: "perf.hardware: no hardware PMU".
  const Finding& finding = prober.Get(needed);
  bool chained = finding.reason.find(": ") != std::string::npos && ParseFeature(finding.reason.substr(0, finding.reason.find(": "))).ok();
  return Finding::Off(chained ? finding.reason : std::string(InfoOf(needed).name) + ": " + finding.reason, finding.remedy);
}

StatusOr<UniqueFd> OpenOwnEvent(const char* name, const SamplingSpec& sampling) {
  ASSIGN_OR_RETURN(EventSpec event, ParseEvent(name));
  return OpenPerfEvent(MakeAttr(event, sampling), {.pid = 0}, name);
}

}  // namespace probe

FeatureSet ProbeFeatures(const ProbeOptions& options) {
  probe::Prober prober(options.overrides);
  if (options.only.empty()) {
    for (const FeatureInfo& info : AllFeatures()) prober.Get(info.id);
  } else {
    for (Feature feature : options.only) prober.Get(feature);
  }
  return prober.Finish();
}

}  // namespace brink
