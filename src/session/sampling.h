// The sampling events of a session: opened on CPUs, on a cgroup, or (fall-back) on tasks, with the source's program.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "kernel/perf_event.h"

struct bpf_program;

namespace brink {

struct SamplingPlan {
  std::vector<EventSpec> events;
  uint64_t frequency = 0, period = 0;  // one of them
  std::vector<int> cpus;
  std::vector<int> cgroup_fds;      // not empty: events of these groups
  std::vector<pid_t> inherit_tids;  // not empty: inherited events on these tasks
  bool enable_on_exec = false;      // with inherit_tids
};

// The attribute of `event` in this plan, before the source amends it.
perf_event_attr SamplingAttr(const SamplingPlan& plan, const EventSpec& event);

class SamplingEvents {
 public:
  // Adds what the source needs to an attribute.
  using Amend = std::function<Status(perf_event_attr*)>;

  // Opens everything, disabled, and attaches `program` (with the event's index as cookie). Tracepoints get
  // `tracepoint_program`, once, when the events are enabled: such a program runs at each hit on every CPU from its
  // attachment on, whatever the event's state and period.
  Status Open(const SamplingPlan& plan, const Amend& amend, const bpf_program* program, const bpf_program* tracepoint_program = nullptr);
  // A CPU has come back: opens its events anew, enabled if the others are. One that has gone: closes them.
  Status OpenCpu(int cpu);
  void CloseCpu(int cpu);
  Status Enable();
  void Disable();
  void Close();

  size_t size() const { return open_.size(); }

 private:
  struct OpenEvent {
    int cpu;
    UniqueFd fd, link;
  };
  Status OpenOne(size_t index, const PerfTarget& target);

  SamplingPlan plan_;
  Amend amend_;
  Status OpenTracepoint(size_t index);
  Status Attach(const bpf_program* program, size_t index, OpenEvent* event);

  const bpf_program* program_ = nullptr;
  const bpf_program* tracepoint_program_ = nullptr;
  std::vector<OpenEvent> open_;
  std::vector<std::pair<size_t, OpenEvent>> tracepoints_;  // by index of the event
  bool enabled_ = false;
};

// CPUs that are online, from sysfs.
std::vector<int> OnlineCpus();

}  // namespace brink
