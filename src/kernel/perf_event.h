// perf_event_open: attributes built from data, errors as one line with the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "kernel/perf_abi.h"
#include "kernel/perf_parse.h"

namespace brink {

// How an event is to sample. All zero: a counting event.
struct SamplingSpec {
  uint64_t frequency = 0;           // Hz; excludes period
  uint64_t period = 0;              // events (ns for the clocks); excludes frequency
  uint64_t sample_type = 0;         // PERF_SAMPLE_*
  uint64_t branch_sample_type = 0;  // PERF_SAMPLE_BRANCH_*; sets PERF_SAMPLE_BRANCH_STACK by itself
  bool disabled = true;             // start with PERF_EVENT_IOC_ENABLE
  bool pinned = false;
  bool inherit = false;
  bool enable_on_exec = false;
  bool sigtrap = false;             // with remove_on_exec, as the kernel insists
  uint32_t wakeup_events = 0;
};

// CLOCK_MONOTONIC is set on every event (design: without it two rings are milliseconds apart).
perf_event_attr MakeAttr(const EventSpec& event, const SamplingSpec& sampling);

struct PerfTarget {
  int pid = -1;       // or, with PERF_FLAG_PID_CGROUP, the descriptor of a cgroup directory
  int cpu = -1;
  int group_fd = -1;
  unsigned long flags = 0;  // PERF_FLAG_FD_CLOEXEC is always added
};

// Facts of this machine that tell one errno's causes apart. A value: tests make their own.
struct OpenContext {
  int paranoid = 2;                  // kernel.perf_event_paranoid
  uint64_t max_sample_rate = 100000;  // kernel.perf_event_max_sample_rate, Hz
  bool perfmon_capable = false;
  bool has_cpu_pmu = false;          // sysfs knows a core PMU
  bool hypervisor = false;
  bool amd_brs = false;              // AMD family 19h, Zen 3: branch stacks only by its own event
  std::string online_cpus = "0";     // as in sysfs
  std::string setcap_line;           // exact remedy

  static OpenContext Read();
};

// Opens one event. Ownership of the descriptor goes to the caller. On failure the message names the event, the cause
// and the remedy, and ErrnoOf(status) gives the errno. Thread safe.
StatusOr<UniqueFd> OpenPerfEvent(const perf_event_attr& attr, const PerfTarget& target, std::string_view name);
// The bare system call: a descriptor, or -errno. For probes, which want errno and no words.
int RawPerfEventOpen(const perf_event_attr& attr, const PerfTarget& target);

// The words for `error` (an errno of perf_event_open). Pure.
Status ExplainOpenError(int error, const perf_event_attr& attr, const PerfTarget& target, std::string_view name,
                        const OpenContext& context);

// InvalidArgument when `frequency` is above the kernel's limit (which perf_event_open reports only as EINVAL) or above
// the 100,000 Hz where the clock events end.
Status CheckFrequency(uint64_t frequency, const EventSpec& event, uint64_t max_sample_rate);

// The kernel's limit now (it lowers it itself when interrupts take too long).
uint64_t ReadMaxSampleRate();

Status EnablePerfEvent(int fd);
Status DisablePerfEvent(int fd);

}  // namespace brink
