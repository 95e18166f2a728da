#include "session/sampling.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "base/units.h"

namespace brink {

perf_event_attr SamplingAttr(const SamplingPlan& plan, const EventSpec& event) {
  SamplingSpec sampling = {.frequency = plan.frequency, .period = plan.period};
  if (event.frequency) sampling = {.frequency = event.frequency};
  if (event.period) sampling = {.period = event.period};
  perf_event_attr attr = MakeAttr(event, sampling);
  attr.disabled = 1;
  attr.inherit = !plan.inherit_tids.empty();
  attr.enable_on_exec = plan.enable_on_exec && !plan.inherit_tids.empty();
  return attr;
}

Status SamplingEvents::OpenOne(size_t index, const PerfTarget& target) {
  const EventSpec& event = plan_.events[index];
  perf_event_attr attr = SamplingAttr(plan_, event);
  RETURN_IF_ERROR(amend_(&attr));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenPerfEvent(attr, target, event.name));
  OpenEvent open = {target.cpu, std::move(fd), UniqueFd()};
  if (program_) RETURN_IF_ERROR(Attach(program_, index, &open));
  if (enabled_) RETURN_IF_ERROR(EnablePerfEvent(open.fd.get()));
  open_.push_back(std::move(open));
  return OkStatus();
}

Status SamplingEvents::Attach(const bpf_program* program, size_t index, OpenEvent* event) {
  LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event = {.bpf_cookie = index});
  event->link.Reset(bpf_link_create(bpf_program__fd(program), event->fd.get(), BPF_PERF_EVENT, &options));
  if (!event->link.valid()) return ErrnoError(errno, "attach the sampling program to " + plan_.events[index].name);
  return OkStatus();
}

// One event stands for all CPUs: the program belongs to the tracepoint, a second attachment of it is refused.
Status SamplingEvents::OpenTracepoint(size_t index) {
  const EventSpec& event = plan_.events[index];
  if (!tracepoint_program_) return FailedPrecondition(event.name + ": this source takes no stacks at tracepoints");
  perf_event_attr attr = MakeAttr(event, {.period = 1});
  attr.disabled = 1;
  ASSIGN_OR_RETURN(UniqueFd fd, OpenPerfEvent(attr, {.pid = -1, .cpu = plan_.cpus[0]}, event.name));
  tracepoints_.emplace_back(index, OpenEvent{-1, std::move(fd), UniqueFd()});
  return OkStatus();
}

Status SamplingEvents::OpenCpu(int cpu) {
  for (size_t i = 0; i < plan_.events.size(); ++i) {
    if (plan_.events[i].is_tracepoint()) continue;
    const std::vector<int>& only = plan_.events[i].cpus;
    if (!only.empty() && std::find(only.begin(), only.end(), cpu) == only.end()) continue;
    if (plan_.cgroup_fds.empty()) {
      RETURN_IF_ERROR(OpenOne(i, {.pid = -1, .cpu = cpu}));
    }
    for (int cgroup : plan_.cgroup_fds) {
      RETURN_IF_ERROR(OpenOne(i, {.pid = cgroup, .cpu = cpu, .flags = PERF_FLAG_PID_CGROUP}));
    }
  }
  return OkStatus();
}

Status SamplingEvents::Open(const SamplingPlan& plan, const Amend& amend, const bpf_program* program,
                            const bpf_program* tracepoint_program) {
  plan_ = plan;
  amend_ = amend;
  program_ = program;
  tracepoint_program_ = tracepoint_program;
  for (size_t i = 0; i < plan_.events.size(); ++i) {
    if (plan_.events[i].is_tracepoint()) RETURN_IF_ERROR(OpenTracepoint(i));
  }
  if (plan_.inherit_tids.empty()) {
    for (int cpu : plan_.cpus) RETURN_IF_ERROR(OpenCpu(cpu));
    return OkStatus();
  }
  for (size_t i = 0; i < plan_.events.size(); ++i) {
    if (plan_.events[i].is_tracepoint()) continue;
    for (pid_t tid : plan_.inherit_tids) {
      Status status = OpenOne(i, {.pid = tid, .cpu = -1});
      if (!status.ok() && ErrnoOf(status) != ESRCH) return status;  // a thread that has just ended is no error
    }
  }
  return open_.empty() && tracepoints_.empty() ? NotFound("every thread of the target has ended") : OkStatus();
}

void SamplingEvents::CloseCpu(int cpu) {
  std::erase_if(open_, [cpu](const OpenEvent& event) { return event.cpu == cpu; });
}

Status SamplingEvents::Enable() {
  enabled_ = true;
  for (OpenEvent& event : open_) RETURN_IF_ERROR(EnablePerfEvent(event.fd.get()));
  for (auto& [index, event] : tracepoints_) RETURN_IF_ERROR(Attach(tracepoint_program_, index, &event));
  return OkStatus();
}

void SamplingEvents::Disable() {
  enabled_ = false;
  for (OpenEvent& event : open_) (void)DisablePerfEvent(event.fd.get());
  for (auto& [index, event] : tracepoints_) event.link.Reset();
}

void SamplingEvents::Close() {
  open_.clear();
  tracepoints_.clear();
}

std::vector<int> OnlineCpus() {
  auto text = ReadFile("/sys/devices/system/cpu/online");
  auto cpus = text.ok() ? ParseCpuList(*text) : StatusOr<std::vector<int>>(text.status());
  if (cpus.ok() && !cpus->empty()) return *cpus;
  std::vector<int> all;
  for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); ++cpu) all.push_back(cpu);
  return all;
}

}  // namespace brink
