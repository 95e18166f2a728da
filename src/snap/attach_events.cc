// perf events: the clock, hardware events, breakpoints; on every CPU, or on the groups that are asked for.
#include <bpf/libbpf.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/descriptor_limit.h"
#include "kernel/perf_event.h"
#include "session/core.h"
#include "session/sampling.h"
#include "snap/trigger_object.h"

namespace brink::snap {
namespace {

StatusOr<perf_event_attr> AttrOf(const Trigger& trigger) {
  EventSpec event;
  SamplingSpec sampling = {.disabled = false};
  if (trigger.kind == TriggerKind::kSample) {
    ASSIGN_OR_RETURN(event, ParseEvent("cpu-clock"));
    sampling.period = trigger.period_ns;
  } else if (trigger.kind == TriggerKind::kPerf) {
    ASSIGN_OR_RETURN(event, ParseEvent(trigger.event));
    sampling.period = trigger.period;
  } else {
    event.type = PERF_TYPE_BREAKPOINT;
    event.name = trigger.text;
    event.config1 = trigger.address;
    event.config2 = trigger.length;
    event.bp_type = trigger.watch_mode;
    event.exclude_kernel = true;
    sampling.period = 1;
  }
  return MakeAttr(event, sampling);
}

UniqueFd OpenGroup(const ContainerHierarchy& hierarchy, const std::string& path) {
  return UniqueFd(open((hierarchy.mount + path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Events of a group take in those below it: they would be sampled twice.
std::vector<CgroupFolder> Topmost(std::span<const CgroupFolder> groups) {
  std::vector<CgroupFolder> sorted(groups.begin(), groups.end()), top;
  std::sort(sorted.begin(), sorted.end(), [](const CgroupFolder& a, const CgroupFolder& b) { return a.path.size() < b.path.size(); });
  for (CgroupFolder& group : sorted) {
    if (std::none_of(top.begin(), top.end(), [&](const CgroupFolder& above) { return IsGroupBelow(group.path, above.path); })) top.push_back(std::move(group));
  }
  return top;
}

}  // namespace

bool CanHoldEventsByGroup(const ContainerHierarchy& hierarchy) {
  auto clock = ParseEvent("cpu-clock");
  UniqueFd root = OpenGroup(hierarchy, "/");
  const std::vector<int> cpus = OnlineCpus();
  if (!clock.ok() || !root.valid() || cpus.empty()) return false;
  UniqueFd event(RawPerfEventOpen(MakeAttr(*clock, {}), {.pid = root.get(), .cpu = cpus[0], .flags = PERF_FLAG_PID_CGROUP}));
  return event.valid();
}

StatusOr<bpf_link*> TriggerObject::LinkEvent(const perf_event_attr& attr, const PerfTarget& target) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenPerfEvent(attr, target, plan_.trigger.text));
  bpf_link* link = bpf_program__attach_perf_event(main_, fd.get());
  if (!link) {
    const int error = errno;
    (void)TakeLibbpfMessage();
    return ErrnoError(error, plan_.trigger.text);
  }
  fd.Release();
  return link;
}

Status TriggerObject::AttachEvents() {
  const Trigger& trigger = plan_.trigger;
  if (plan_.by_group) return OkStatus();
  ASSIGN_OR_RETURN(const perf_event_attr attr, AttrOf(trigger));
  for (int cpu : OnlineCpus()) {
    auto link = LinkEvent(attr, {.pid = -1, .cpu = cpu});
    if (!link.ok() && trigger.kind == TriggerKind::kWatch && ErrnoOf(link.status()) == ENOSPC) {
      return ResourceExhausted("all hardware breakpoints of CPU " + std::to_string(cpu) + " are in use (the CPU has four, shared with debuggers and hop)");
    }
    RETURN_IF_ERROR(link.status());
    links_.push_back(*link);
  }
  return OkStatus();
}

// On every CPU, or not at all.
StatusOr<std::vector<bpf_link*>> TriggerObject::LinkGroup(const perf_event_attr& attr, int folder) {
  RaiseDescriptorLimit();
  std::vector<bpf_link*> links;
  for (int cpu : OnlineCpus()) {
    auto link = LinkEvent(attr, {.pid = folder, .cpu = cpu, .flags = PERF_FLAG_PID_CGROUP});
    if (link.ok()) {
      links.push_back(*link);
      continue;
    }
    for (bpf_link* opened : links) bpf_link__destroy(opened);
    return link.status();
  }
  return links;
}

Status TriggerObject::SetGroups(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups) {
  if (!plan_.by_group) return OkStatus();
  ASSIGN_OR_RETURN(const perf_event_attr attr, AttrOf(plan_.trigger));
  std::set<uint64_t> wanted;
  std::vector<CgroupFolder> top = Topmost(groups);
  for (const CgroupFolder& group : top) wanted.insert(group.id);
  std::erase_if(group_links_, [&](const auto& held) {
    if (wanted.contains(held.first)) return false;
    for (bpf_link* link : held.second) bpf_link__destroy(link);
    return true;
  });
  Status failed;
  for (const CgroupFolder& group : top) {
    if (group_links_.contains(group.id)) continue;
    UniqueFd folder = OpenGroup(hierarchy, group.path);
    if (!folder.valid()) continue;  // it has gone meanwhile
    auto links = LinkGroup(attr, folder.get());
    // The others are sampled all the same, and this one is tried again.
    if (links.ok()) group_links_.emplace(group.id, *std::move(links));
    else failed = links.status();
  }
  return failed;
}

}  // namespace brink::snap
