// The kernel's files, cgroups, ptrace.
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <absl/strings/str_cat.h>

#include "base/strings.h"
#include "container/hierarchy.h"
#include "kernel/cgroup_hierarchies.h"
#include "kernel/tracefs.h"
#include "probe/prober.h"

namespace brink::probe {

Finding ProbeBtf(Prober&) {
  struct stat st;
  if (::stat("/sys/kernel/btf/vmlinux", &st) == 0 && ::access("/sys/kernel/btf/vmlinux", R_OK) == 0) return Finding::On();
  return Finding::Off("/sys/kernel/btf/vmlinux is not there", "use a kernel built with CONFIG_DEBUG_INFO_BTF (every current distribution kernel is)");
}

Finding ProbeKernelRt(Prober&) {
  auto text = ReadFile("/sys/kernel/realtime", 16);
  if (text.ok() && Trim(*text) == "1") return Finding::On();
  return Finding::Off("an ordinary kernel");
}

Finding ProbeTracefs(Prober& prober) {
  if (TracefsMounted()) return Finding::On("mounted");
  if (!TracefsRoot().empty()) return Finding::On("not mounted; brink opens its own");
  if (::access("/sys/kernel/tracing", F_OK) != 0) return Finding::Off("this kernel has no tracefs");
  struct statfs fs = {};
  bool mounted = ::statfs("/sys/kernel/tracing", &fs) == 0 && fs.f_type == 0x74726163;
  if (mounted) return Finding::Off("tracefs is mounted for root only", SetcapLine({CAP_DAC_READ_SEARCH}));
  return Finding::Off("tracefs is not mounted", prober.facts.caps.Has(CAP_SYS_ADMIN) ? "the container's profile forbids mounting; mount -t tracefs tracefs /sys/kernel/tracing outside"
                                                                                       : "mount -t tracefs tracefs /sys/kernel/tracing, as root");
}

Finding ProbeBpffs(Prober&) {
  struct statfs fs = {};
  constexpr unsigned long kBpfFsMagic = 0xcafe4a11;
  if (::statfs("/sys/fs/bpf", &fs) == 0 && static_cast<unsigned long>(fs.f_type) == kBpfFsMagic) return Finding::On();
  return Finding::Off("no BPF file system on /sys/fs/bpf (only pinning needs it)", "mount -t bpf bpf /sys/fs/bpf");
}

Finding ProbeKallsyms(Prober& prober) {
  UniqueFd fd(::open("/proc/kallsyms", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Finding::Off("/proc/kallsyms: " + ErrnoText(errno));
  char block[4096];
  ssize_t n = ::read(fd.get(), block, sizeof block);
  for (std::string_view line : Split(std::string_view(block, n > 0 ? static_cast<size_t>(n) : 0), '\n')) {
    // The first per-CPU symbols are at small addresses; a line of kernel text is not.
    if (line.size() > 16 && line.substr(0, 16).find_first_not_of('0') != std::string_view::npos) return Finding::On();
  }
  // kptr_restrict 0 shows them to everyone only where perf may look at the kernel too.
  const MachineFacts& facts = prober.facts;
  std::string remedy = SetcapLine({CAP_SYSLOG});
  if (facts.kptr_restrict == 0) remedy += ", or sysctl kernel.perf_event_paranoid=1 as root";
  if (facts.kptr_restrict == 1) remedy += ", or sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1 as root";
  if (facts.kptr_restrict > 1) remedy = "sysctl kernel.kptr_restrict=1, as root";
  return Finding::Off(absl::StrCat("all addresses are hidden (kernel.kptr_restrict ", facts.kptr_restrict, ", perf_event_paranoid ", facts.paranoid, ")"), remedy);
}

namespace {

// Seizes its own child, steps it three times and lets it go.
int StepAChild() {
  pid_t child = ::fork();
  if (child < 0) return 10;
  if (child == 0) {
    for (;;) asm volatile("");
  }
  int failed = 0, status = 0;
  auto stopped = [&] { return ::waitpid(child, &status, __WALL) == child && WIFSTOPPED(status); };
  if (::ptrace(PTRACE_SEIZE, child, 0, 0) != 0) {
    failed = 11;
  } else if (::ptrace(PTRACE_INTERRUPT, child, 0, 0) != 0 || !stopped()) {
    failed = 12;
  } else {
    for (int i = 0; i < 3 && !failed; ++i) {
      if (::ptrace(PTRACE_SINGLESTEP, child, 0, 0) != 0 || !stopped() || WSTOPSIG(status) != SIGTRAP) failed = 13;
    }
    if (!failed && ::ptrace(PTRACE_DETACH, child, 0, 0) != 0) failed = 14;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, __WALL);
  return failed;
}

volatile sig_atomic_t g_traps;

int CatchSigtrap() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_traps = g_traps + 1; };
  ::sigaction(SIGTRAP, &action, nullptr);
  auto fd = OpenOwnEvent("cpu-clock:u", {.period = 1'000'000, .disabled = false, .sigtrap = true});
  if (!fd.ok()) return ErrnoOf(fd.status()) == EINVAL ? 11 : 10;
  BurnCpu(10);
  return g_traps ? 0 : 12;
}

}  // namespace

Finding ProbePtrace(Prober& prober) {
  int status = RunChild(StepAChild);
  std::string scope;
  bool others = prober.facts.caps.Has(CAP_SYS_PTRACE) || prober.facts.yama_scope == 0;
  if (!others) scope = absl::StrCat("own children only (yama ptrace_scope ", prober.facts.yama_scope, ")");
  if (status == 0) return Finding::On(scope);
  if (status == 11) return Finding::Off("PTRACE_SEIZE is refused (a sandbox, a container profile or yama scope 3)", "run outside the sandbox, or with --cap-add=SYS_PTRACE");
  return Finding::Off(status == 13 ? "single step does not stop the child" : absl::StrCat("a traced child could not be handled (step ", status, ")"));
}

Finding ProbeSigtrap(Prober&) {
  int status = RunChild(CatchSigtrap);
  if (status == 0) return Finding::On();
  if (status == 11) return Finding::Off("this kernel's perf events have no sigtrap (5.13 and later do)");
  return Finding::Off(status == 12 ? "the event opens, but no SIGTRAP comes" : "the event cannot be opened");
}

// Said with the version that it is.
std::string ContainersToldApart(bool v2) {
  const ContainerHierarchy chosen = ChooseHierarchy();
  return chosen.v2() == v2 ? "; containers are told apart by " + chosen.Name() : "";
}

Finding ProbeCgroupV2(Prober&) {
  CgroupHierarchies mounts = CgroupHierarchies::Read();
  if (mounts.v2.empty()) return Finding::Off("no cgroup2 mount", "mount -t cgroup2 none /sys/fs/cgroup");
  return Finding::On(mounts.v2 + (mounts.v1.empty() ? "" : " (hybrid: v1 hierarchies beside it)") + ContainersToldApart(true));
}

Finding ProbeCgroupV1(Prober&) {
  CgroupHierarchies mounts = CgroupHierarchies::Read();
  if (mounts.v1.empty()) return Finding::Off("none: cgroup v2 only");
  std::string names, apart;
  for (const CgroupHierarchies::V1& mount : mounts.v1) {
    absl::StrAppend(&names, names.empty() ? "" : " ", mount.controllers);
    if (mount.own_path != mounts.own_v2_path) absl::StrAppend(&apart, apart.empty() ? "" : " ", mount.controllers);
  }
  return Finding::On(names + (apart.empty() ? "" : "; this process is in another group than on v2: " + apart) + ContainersToldApart(false));
}

Finding ProbeCgroupEvents(Prober&) {
  CgroupHierarchies mounts = CgroupHierarchies::Read();
  // Exactly one hierarchy has the perf_event controller: a v1 mount that names it, else v2 (where it is implicit).
  std::string folder = mounts.PerfEventFolder();
  if (folder.empty()) return Finding::Off("no mounted hierarchy has the perf_event controller", "mount a cgroup2 file system");
  UniqueFd group(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!group.valid()) return Finding::Off(folder + ": " + ErrnoText(errno));
  auto event = ParseEvent("cpu-clock");
  if (!event.ok()) return OffFrom(event.status());
  std::vector<UniqueFd> fds;
  for (int cpu = 0; cpu < static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF)); ++cpu) {
    auto fd = OpenPerfEvent(MakeAttr(*event, {.disabled = false}), {.pid = group.get(), .cpu = cpu, .flags = PERF_FLAG_PID_CGROUP}, "cpu-clock of a cgroup");
    if (!fd.ok() && ErrnoOf(fd.status()) == ENODEV) continue;  // offline
    if (!fd.ok()) return OffFrom(fd.status());
    fds.push_back(std::move(*fd));
  }
  BurnCpu(5);
  uint64_t total = 0;
  for (const UniqueFd& fd : fds) {
    uint64_t count = 0;
    if (::read(fd.get(), &count, sizeof count) == sizeof count) total += count;
  }
  if (total == 0) return Finding::Off("an event of cgroup " + folder + " opens, but does not count");
  return Finding::On(mounts.perf_event_on_v1 ? "on the v1 perf_event hierarchy" : "on v2");
}

}  // namespace brink::probe
