#include "kernel/perf_event.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace brink {

perf_event_attr MakeAttr(const EventSpec& event, const SamplingSpec& sampling) {
  perf_event_attr attr = {};
  attr.size = sizeof attr;
  attr.type = event.type;
  if (event.is_breakpoint()) {
    attr.bp_type = event.bp_type;
    attr.bp_addr = event.config1;
    attr.bp_len = event.config2;
  } else {
    attr.config = event.config;
    attr.config1 = event.config1;
    attr.config2 = event.config2;
  }
  attr.exclude_user = event.exclude_user;
  attr.exclude_kernel = event.exclude_kernel;
  attr.exclude_hv = event.exclude_hv;
  attr.exclude_host = event.exclude_host;
  attr.exclude_guest = event.exclude_guest;
  attr.precise_ip = event.precise & 3;
  if (sampling.frequency) {
    attr.freq = 1;
    attr.sample_freq = sampling.frequency;
  } else {
    attr.sample_period = sampling.period;
  }
  attr.sample_type = sampling.sample_type;
  if (sampling.branch_sample_type) {
    attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
    attr.branch_sample_type = sampling.branch_sample_type;
  }
  attr.disabled = sampling.disabled;
  attr.pinned = sampling.pinned;
  attr.inherit = sampling.inherit;
  attr.enable_on_exec = sampling.enable_on_exec;
  attr.sigtrap = sampling.sigtrap;
  attr.remove_on_exec = sampling.sigtrap;
  attr.wakeup_events = sampling.wakeup_events;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

int RawPerfEventOpen(const perf_event_attr& attr, const PerfTarget& target) {
  perf_event_attr copy = attr;  // the kernel writes attr.size on E2BIG
  long fd = ::syscall(SYS_perf_event_open, &copy, target.pid, target.cpu, target.group_fd, target.flags | PERF_FLAG_FD_CLOEXEC);
  return fd >= 0 ? static_cast<int>(fd) : -errno;
}

StatusOr<UniqueFd> OpenPerfEvent(const perf_event_attr& attr, const PerfTarget& target, std::string_view name) {
  int fd = RawPerfEventOpen(attr, target);
  if (fd >= 0) return UniqueFd(fd);
  return ExplainOpenError(-fd, attr, target, name, OpenContext::Read());
}

Status EnablePerfEvent(int fd) {
  return ::ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0 ? OkStatus() : ErrnoError(errno, "enable a perf event");
}

Status DisablePerfEvent(int fd) {
  return ::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) == 0 ? OkStatus() : ErrnoError(errno, "disable a perf event");
}

}  // namespace brink
