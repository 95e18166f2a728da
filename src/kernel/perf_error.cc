// What an errno of perf_event_open means here, and what to do about it.
#include <cerrno>
#include <cstring>

#include <absl/strings/str_cat.h>

#include "base/descriptor_limit.h"
#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/capability.h"
#include "kernel/cpu_info.h"
#include "kernel/perf_event.h"

namespace brink {
namespace {

constexpr uint64_t kClockMaxHz = 100'000;  // the kernel's hrtimer events do not go below 10 us

int ReadNumber(const char* path, int otherwise) {
  auto text = ReadFile(path, 64);
  if (!text.ok()) return otherwise;
  std::string_view trimmed = Trim(*text);
  bool negative = !trimmed.empty() && trimmed[0] == '-';
  auto value = ParseUint(negative ? trimmed.substr(1) : trimmed);
  if (!value.ok()) return otherwise;
  return negative ? -static_cast<int>(*value) : static_cast<int>(*value);
}

bool IsHardware(const perf_event_attr& attr) {
  return attr.type == PERF_TYPE_HARDWARE || attr.type == PERF_TYPE_HW_CACHE || attr.type == PERF_TYPE_RAW;
}

bool WantsBranches(const perf_event_attr& attr) { return attr.sample_type & PERF_SAMPLE_BRANCH_STACK; }

std::string Denied(const perf_event_attr& attr, const PerfTarget& target, const OpenContext& context) {
  if (context.perfmon_capable) {
    // Debian's patch: above 2 perf_event_open asks for CAP_SYS_ADMIN before it looks at anything else.
    if (context.paranoid > 2 && target.pid <= 0) {
      return absl::StrCat("kernel.perf_event_paranoid is ", context.paranoid, ", where CAP_PERFMON is not enough on Debian's kernels;",
                          " run as root, or sysctl kernel.perf_event_paranoid=2");
    }
    return target.pid > 0 ? absl::StrCat("the kernel or a security module refuses access to process ", target.pid)
                          : std::string("a security module or the container's seccomp profile refuses perf_event_open although CAP_PERFMON is held");
  }
  // The lowest level at which the kernel would have let this event pass.
  bool kernel = !attr.exclude_kernel;
  bool raw = attr.type == PERF_TYPE_TRACEPOINT && attr.sample_type & PERF_SAMPLE_RAW;
  bool whole_cpu = target.pid == -1 || target.flags & PERF_FLAG_PID_CGROUP;
  int needed = raw ? -1 : whole_cpu ? 0 : kernel ? 1 : 2;
  if (context.paranoid <= needed) {
    return absl::StrCat("process ", target.pid, " belongs to another user or is not dumpable (", context.setcap_line,
                        " does not suffice); run as its user or as root");
  }
  std::string out = absl::StrCat("kernel.perf_event_paranoid is ", context.paranoid, ", this needs ", needed, " or CAP_PERFMON; ",
                                 context.setcap_line, ", or sysctl kernel.perf_event_paranoid=", needed);
  if (kernel && !whole_cpu && context.paranoid <= 2) out += ", or leave the kernel out (:u)";
  return out;
}

std::string NoPmu(const perf_event_attr& attr, const OpenContext& context) {
  if (attr.type == PERF_TYPE_TRACEPOINT) return "this kernel has no tracepoint with that id";
  if (attr.type == PERF_TYPE_BREAKPOINT) return "this CPU has no hardware breakpoints";
  if (IsHardware(attr) && !context.has_cpu_pmu) {
    return absl::StrCat("no hardware PMU", context.hypervisor ? " in this virtual machine" : "",
                        "; use -e cpu-clock, or give the machine a PMU (for KVM: -cpu host,pmu=on)");
  }
  return IsHardware(attr) ? "the CPU's PMU does not have this event" : "no PMU takes this event";
}

std::string NotSupported(const perf_event_attr& attr, const OpenContext& context) {
  if (!WantsBranches(attr)) return "this PMU cannot sample: it has no overflow interrupt; count with it, or sample with -e cpu-clock";
  if (attr.type == PERF_TYPE_SOFTWARE || attr.type == PERF_TYPE_TRACEPOINT || attr.type == PERF_TYPE_BREAKPOINT) {
    return "only hardware events carry a branch stack; use -e cycles, or --source walk for software branch records";
  }
  if (!context.has_cpu_pmu || context.hypervisor) {
    return "no branch records in this virtual machine's PMU; use --source walk, or run on metal";
  }
  return "this PMU has no branch records, or lacks one of the flags asked for; brink doctor lists the flags it has";
}

std::string Invalid(const perf_event_attr& attr, const OpenContext& context) {
  if (attr.freq && attr.sample_freq > context.max_sample_rate) {
    return absl::StrCat("the rate ", attr.sample_freq, " Hz is above kernel.perf_event_max_sample_rate = ", context.max_sample_rate);
  }
  if (WantsBranches(attr) && context.amd_brs) {
    return "Zen 3 records branches only with its own event and a fixed period: -e cpu/branch-brs/ -c 100003 (without the kind filter)";
  }
  if (WantsBranches(attr)) {
    return "the PMU or this kernel does not accept this combination of branch flags; brink doctor lists the flags that work one by one";
  }
  if (attr.precise_ip) return "this event is not precise on this CPU; leave :p out";
  if (attr.type == PERF_TYPE_BREAKPOINT) return "the address, length or access is not possible for a hardware breakpoint";
  return "the kernel does not accept this event's numbers";
}

std::string Busy(const perf_event_attr& attr) {
  return attr.type == PERF_TYPE_BREAKPOINT ? "all debug registers are taken (debuggers and hop use them too)"
                                           : "another tool holds this hardware for itself; end it first (perf record, a debugger, the NMI watchdog)";
}

std::string TooManyFiles() {
  const uint64_t limit = DescriptorLimit();
  return absl::StrCat("out of file descriptors (limit ", limit, "); raise it: ulimit -n ", std::max<uint64_t>(limit * 4, 65536));
}

std::string NoDevice(const PerfTarget& target, const OpenContext& context) {
  auto online = ParseCpuList(context.online_cpus);
  bool known = online.ok() && std::find(online->begin(), online->end(), target.cpu) != online->end();
  if (known) return absl::StrCat("this PMU does not serve CPU ", target.cpu);
  return absl::StrCat("CPU ", target.cpu, " is offline; online: ", context.online_cpus);
}

// Version 2 gives the controller to every group, but only once any controller was given out at the root, as systemd does at boot.
std::string NoController() {
  return "the cgroup has no perf_event controller: it was removed meanwhile, or nobody has set up this hierarchy yet; echo +cpu > /sys/fs/cgroup/cgroup.subtree_control";
}

std::string Reason(int error, const perf_event_attr& attr, const PerfTarget& target, const OpenContext& context) {
  switch (error) {
    case EACCES:
    case EPERM: return Denied(attr, target, context);
    case ENOENT: return (target.flags & PERF_FLAG_PID_CGROUP) ? NoController() : NoPmu(attr, context);
    case EOPNOTSUPP: return NotSupported(attr, context);
    case EINVAL: return Invalid(attr, context);
    case ENODEV: return NoDevice(target, context);
    case ESRCH: return absl::StrCat("no process or thread ", target.pid);
    case EMFILE: return TooManyFiles();
    case ENFILE: return "the whole system is out of file descriptors; raise sysctl fs.file-max";
    case EBUSY: return Busy(attr);
    case ENOSPC: return attr.type == PERF_TYPE_BREAKPOINT ? Busy(attr) : std::string("no counter left for a pinned event");
    case E2BIG: return "this kernel's perf is older than brink's floor (6.1)";
    case ENOSYS: return "this kernel is built without perf events (CONFIG_PERF_EVENTS), or seccomp hides them";
    case EOVERFLOW: return "the event's size fields do not fit";
    default: return std::strerror(error);
  }
}

}  // namespace

OpenContext OpenContext::Read() {
  OpenContext context;
  CpuInfo cpu = CpuInfo::Read();
  context.paranoid = ReadNumber("/proc/sys/kernel/perf_event_paranoid", 2);
  context.max_sample_rate = ReadMaxSampleRate();
  context.perfmon_capable = CapSet::ReadEffective().PerfmonCapable();
  context.has_cpu_pmu = !CorePmus().empty();
  context.hypervisor = cpu.hypervisor;
  context.amd_brs = cpu.vendor == CpuVendor::kAmd && cpu.amd_brs;
  auto online = ReadFile("/sys/devices/system/cpu/online", 4096);
  if (online.ok()) context.online_cpus = Trim(*online);
  context.setcap_line = SetcapLine();
  return context;
}

Status ExplainOpenError(int error, const perf_event_attr& attr, const PerfTarget& target, std::string_view name, const OpenContext& context) {
  Status coded = ErrnoError(error, "");
  std::string message = absl::StrCat("event ", std::string(name), ": ", Reason(error, attr, target, context));
  Status status(coded.code(), message);
  coded.ForEachPayload([&](auto url, const auto& payload) { status.SetPayload(url, payload); });
  return status;
}

uint64_t ReadMaxSampleRate() {
  int rate = ReadNumber("/proc/sys/kernel/perf_event_max_sample_rate", static_cast<int>(kClockMaxHz));
  return rate > 0 ? static_cast<uint64_t>(rate) : 0;
}

Status CheckFrequency(uint64_t frequency, const EventSpec& event, uint64_t max_sample_rate) {
  if (frequency == 0) return InvalidArgument("a sampling rate of 0 Hz takes no samples; leave -F out for the default");
  if (frequency > max_sample_rate) {
    return InvalidArgument(absl::StrCat("-F ", frequency, " is above this machine's limit of ", max_sample_rate,
                                        " Hz (kernel.perf_event_max_sample_rate); use -F ", max_sample_rate, " or less, or raise the sysctl"));
  }
  if (event.is_clock() && frequency > kClockMaxHz) {
    return InvalidArgument(absl::StrCat("-F ", frequency, ": ", event.name, " ends at ", kClockMaxHz, " Hz; use -F ", kClockMaxHz, " or less"));
  }
  return OkStatus();
}

}  // namespace brink
