// perf events: opening is not enough, each must count or sample.
#include <cerrno>
#include <unistd.h>

#include <absl/strings/str_cat.h>

#include "probe/known_loop.h"
#include "probe/sample_ring.h"
#include "probe/prober.h"

namespace brink::probe {
namespace {

alignas(8) volatile uint64_t g_watched;

uint64_t ReadCount(int fd) {
  uint64_t count = 0;
  return ::read(fd, &count, sizeof count) == sizeof count ? count : 0;
}

// Counts `event` while `act` runs.
StatusOr<uint64_t> CountDuring(const std::string& event, void (*act)()) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenOwnEvent(event.c_str(), {.disabled = false}));
  act();
  return ReadCount(fd.get());
}

Finding ProbeBreakpoint(const std::string& event, void (*act)(), uint64_t expected) {
  auto count = CountDuring(event, act);
  if (!count.ok()) return OffFrom(count.status());
  if (*count != expected) return Finding::Off(absl::StrCat("opens, but counts ", *count, " of ", expected, " hits"));
  return Finding::On();
}

}  // namespace

Finding ProbePerfClock(Prober&) {
  auto event = ParseEvent("cpu-clock:u");
  if (!event.ok()) return OffFrom(event.status());
  perf_event_attr attr = MakeAttr(*event, {.period = 500'000});
  auto checked = OpenPerfEvent(attr, {.pid = 0}, "cpu-clock");
  if (!checked.ok()) return OffFrom(checked.status());
  auto ring = SampleRing::Open(attr);
  if (!ring.ok()) return OffFrom(ring.status());
  if (Status on = EnablePerfEvent(ring->fd()); !on.ok()) return OffFrom(on);
  BurnCpu(10);
  int samples = ring->Drain([](uint64_t, std::span<const BranchEntry>) {});
  return samples ? Finding::On() : Finding::Off("opens, but delivers no samples");
}

Finding ProbePerfHardware(Prober&) {
  auto count = CountDuring("cycles:u", [] { BurnCpu(2); });
  if (!count.ok()) return OffFrom(count.status());
  return *count ? Finding::On() : Finding::Off("opens, but counts nothing");
}

// Guests whose PMU has no overflow interrupt accept the event and never sample
// (https://github.com/oxidecomputer/propolis/issues/894).
Finding ProbePerfOverflow(Prober& prober) {
  if (!prober.Has(Feature::kPerfHardware)) return OffBecauseOf(prober, Feature::kPerfHardware);
  auto event = ParseEvent("cycles:u");
  if (!event.ok()) return OffFrom(event.status());
  perf_event_attr attr = MakeAttr(*event, {.period = 100'003});
  auto ring = SampleRing::Open(attr);
  if (!ring.ok()) return OffFrom(ExplainOpenError(ErrnoOf(ring.status()), attr, {.pid = 0}, "cycles:u", prober.open));
  if (Status on = EnablePerfEvent(ring->fd()); !on.ok()) return OffFrom(on);
  BurnCpu(10);
  int samples = ring->Drain([](uint64_t, std::span<const BranchEntry>) {});
  if (samples == 0) {
    return Finding::Off("the event counts but never interrupts: this virtual machine's PMU has no overflow interrupt", "sample with -e cpu-clock, or ask for a full virtual PMU");
  }
  return Finding::On();
}

Finding ProbePerfBreakpoint(Prober&) {
  return ProbeBreakpoint(absl::StrCat("mem:", reinterpret_cast<uint64_t>(&g_watched), "/8:w:u"),
                         [] {
                           for (uint64_t i = 0; i < 5; ++i) g_watched = i;
                         },
                         5);
}

Finding ProbePerfExecBreakpoint(Prober&) {
  return ProbeBreakpoint(absl::StrCat("mem:", reinterpret_cast<uint64_t>(&brink_probe_target), ":x:u"),
                         [] {
                           for (int i = 0; i < 5; ++i) brink_probe_target(i);
                         },
                         5);
}

}  // namespace brink::probe
