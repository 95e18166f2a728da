#include "snapshot/held_events.h"

#include <algorithm>
#include <unistd.h>

#include "base/strings.h"
#include "base/units.h"
#include "kernel/cpu_info.h"

namespace brink {
namespace {

StatusOr<std::vector<int>> Online() {
  ASSIGN_OR_RETURN(std::string text, ReadFile("/sys/devices/system/cpu/online", 1 << 16));
  return ParseCpuList(Trim(text));
}

}  // namespace

uint64_t HeldFlags(TriggerSide side, uint64_t kinds) {
  uint64_t user = PERF_SAMPLE_BRANCH_USER, kernel = PERF_SAMPLE_BRANCH_KERNEL;
  return kinds | (side == TriggerSide::kUser ? user : side == TriggerSide::kKernel ? kernel : user | kernel);
}

StatusOr<HeldEvents> HeldEvents::Open(uint64_t flags) {
  HeldEvents held;
  ASSIGN_OR_RETURN(held.plan_, PlanBranchEvent(CpuInfo::Read(), {.flags = flags}, TryOpenOnSelf(), OpenContext::Read()));
  // The event itself counts everywhere: what it excluded, the hardware would not record either.
  held.plan_.event.exclude_user = held.plan_.event.exclude_kernel = false;
  held.plan_.sampling.pinned = true;
  held.plan_.sampling.disabled = false;
  ASSIGN_OR_RETURN(int opened, held.Refresh());
  if (opened == 0) return held.failed_.empty() ? NotFound("no CPU is online") : held.failed_.begin()->second;
  return held;
}

Status HeldEvents::OpenCpu(int cpu) {
  ASSIGN_OR_RETURN(events_[cpu], OpenPerfEvent(plan_.Attr(), {.pid = -1, .cpu = cpu}, "the held branch event"));
  return OkStatus();
}

StatusOr<int> HeldEvents::Refresh() {
  ASSIGN_OR_RETURN(std::vector<int> online, Online());
  std::erase_if(events_, [&](const auto& event) {
    // An event of a CPU that went away, or one in error state: reading it gives end of file.
    uint64_t count;
    return !std::binary_search(online.begin(), online.end(), event.first) || ::read(event.second.get(), &count, sizeof count) == 0;
  });
  failed_.clear();
  int opened = 0;
  for (int cpu : online) {
    if (events_.count(cpu)) continue;
    Status status = OpenCpu(cpu);
    opened += status.ok();
    if (!status.ok()) {
      events_.erase(cpu);
      failed_[cpu] = status;
    }
  }
  return opened;
}

bool HeldEvents::both_privileges() const {
  constexpr uint64_t kAll = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_ANY;
  return (flags() & kAll) == kAll;
}

std::vector<int> HeldEvents::cpus() const {
  std::vector<int> cpus;
  for (const auto& event : events_) cpus.push_back(event.first);
  return cpus;
}

}  // namespace brink
