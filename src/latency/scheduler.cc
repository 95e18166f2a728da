#include "latency/scheduler.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/capability.h"
#include "kernel/cgroup_hierarchies.h"
#include "latency/cpu_set.h"

namespace brink::latency {
namespace {

// As the kernel lays it out (linux/sched/types.h clashes with glibc's sched.h).
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedAttr) == 48);

uint32_t KernelPolicy(Policy policy) {
  switch (policy) {
    case Policy::kFifo: return SCHED_FIFO;
    case Policy::kRr: return SCHED_RR;
    case Policy::kBatch: return SCHED_BATCH;
    case Policy::kIdle: return SCHED_IDLE;
    case Policy::kDeadline: return 6;
    case Policy::kOther: break;
  }
  return SCHED_OTHER;
}

int TrySet(const SchedulerRequest& request) {
  SchedAttr attr;
  attr.policy = KernelPolicy(request.policy);
  if (request.policy == Policy::kFifo || request.policy == Policy::kRr) attr.priority = static_cast<uint32_t>(request.priority);
  if (request.policy == Policy::kDeadline) {
    attr.runtime = static_cast<uint64_t>(request.runtime_ns);
    attr.deadline = attr.period = static_cast<uint64_t>(request.period_ns);
  }
  return ::syscall(SYS_sched_setattr, 0, &attr, 0) == 0 ? 0 : errno;
}

int64_t ReadNumber(const std::string& path) {
  auto text = ReadFile(path, 64);
  if (!text.ok()) return -1;
  std::string_view trimmed = Trim(*text);
  auto number = ParseUint(trimmed);
  return number.ok() ? static_cast<int64_t>(*number) : -1;
}

}  // namespace

Status SetScheduler(const SchedulerRequest& request) {
  int error = TrySet(request);
  if (error == EPERM) {
    struct rlimit limit;
    if (::getrlimit(RLIMIT_RTPRIO, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
      limit.rlim_cur = limit.rlim_max;
      if (::setrlimit(RLIMIT_RTPRIO, &limit) == 0) error = TrySet(request);
    }
  }
  if (error) return ErrnoError(error, ExplainRefusal(request, error, ReadRtFacts()));
  return OkStatus();
}

RtFacts ReadRtFacts() {
  RtFacts facts;
  facts.cap_sys_nice = CapSet::ReadEffective().Has(CAP_SYS_NICE);
  struct rlimit limit;
  if (::getrlimit(RLIMIT_RTPRIO, &limit) == 0) facts.rtprio_hard = limit.rlim_max;
  facts.pinned = AllowedCpus().size() < OnlineCpus().size();
  facts.sysctl_runtime_us = ReadNumber("/proc/sys/kernel/sched_rt_runtime_us");
  for (const CgroupHierarchies::V1& hierarchy : CgroupHierarchies::Read().v1) {
    for (std::string_view controller : Split(hierarchy.controllers, ',')) {
      if (controller != "cpu") continue;
      facts.cpu_cgroup = hierarchy.own_path;
      facts.rt_runtime_us = ReadNumber(hierarchy.mount + hierarchy.own_path + "/cpu.rt_runtime_us");
    }
  }
  return facts;
}

std::string ExplainRefusal(const SchedulerRequest& request, int error, const RtFacts& facts) {
  std::string what = "SCHED_" + std::string(PolicyName(request.policy));
  for (char& c : what) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  if (request.priority) what += absl::StrFormat(" priority %d", request.priority);
  what += " was refused: ";
  bool rt = request.policy == Policy::kFifo || request.policy == Policy::kRr;
  if (rt && facts.rt_runtime_us == 0) {
    return what + "the cpu cgroup " + EscapeForTerminal(facts.cpu_cgroup) +
           " has cpu.rt_runtime_us 0; write a runtime there (echo 950000), or move to the root group";
  }
  if (request.policy == Policy::kDeadline && error == EBUSY) {
    return what + "the runtime does not fit into what the CPUs have left for deadline tasks; ask for less (--policy deadline:RUNTIME:PERIOD)";
  }
  if (request.policy == Policy::kDeadline && facts.cap_sys_nice && facts.pinned) {
    return what + "a deadline thread may not be pinned to some CPUs only; leave -a and -S out, or use an exclusive cpuset";
  }
  if (request.policy == Policy::kDeadline && error == EINVAL) return what + "runtime and period must be at least 1 us and runtime <= period";
  if (!facts.cap_sys_nice && (!rt || facts.rtprio_hard < static_cast<uint64_t>(request.priority))) {
    return what + absl::StrFormat("no CAP_SYS_NICE and RLIMIT_RTPRIO is %d; run as root, setcap cap_sys_nice+ep, or raise rtprio in limits.conf",
                                  facts.rtprio_hard);
  }
  if (rt && facts.sysctl_runtime_us == 0) return what + "kernel.sched_rt_runtime_us is 0; sysctl kernel.sched_rt_runtime_us=950000";
  return what + "the kernel says";
}

}  // namespace brink::latency
