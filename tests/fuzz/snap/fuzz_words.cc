// The small languages of the command line and of files beside it: triggers, events, probe arguments, formats of tracepoints,
// sizes, times, lists. First byte: which ("0" to "3" in the seeds); the rest: the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/units.h"
#include "brbe/stream.h"
#include "kernel/perf_parse.h"
#include "latency/config.h"
#include "latency/cpu_set.h"
#include "script/fields.h"
#include "snap/trigger.h"
#include "snap/values.h"

using namespace brink;

namespace {

void ReadTrigger(std::string_view text) {
  auto trigger = snap::ParseTrigger(text);
  if (!trigger.ok()) {
    if (snap::TriggerErrorColumn(trigger.status()) > text.size() + 1) std::abort();
    return;
  }
  (void)trigger->glob(), (void)trigger->returns(), (void)trigger->side();
}

void ReadEvents(std::string_view text) {
  static const KernelRoots kNowhere{.sysfs = "/nonexistent", .tracefs = {"/nonexistent"}};
  (void)ParseEvent(text, kNowhere);
  (void)ParseEventList(text, kNowhere);
}

void ReadUnits(std::string_view text) {
  (void)ParseUint(text), (void)ParseDurationNs(text), (void)ParseSize(text);
  (void)latency::ParseDurationSeconds(text), (void)latency::ParseClock(text);
  (void)script::ParseFields(text), (void)brbe::ParseStreamOptions(text);
  auto cpus = ParseCpuList(text);
  if (cpus.ok() && cpus->size() > 1 << 20) std::abort();
  (void)latency::ParseCpuSet(text, {0, 1, 2, 3}, {0, 1});
}

void ReadProbeText(std::string_view text) {
  brink_snap_load load = {};
  (void)snap::ParseUsdtArgument(text, &load);
  (void)snap::ParseFormat(text);
  (void)snap::ReplaceArrows(text);
  const int number = snap::SignalByName(text);
  constexpr int kNamed = 31;  // those for real time have numbers only
  if (number && number <= kNamed && snap::SignalByName(snap::SignalName(number)) != number) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: ReadTrigger(text); break;
    case 1: ReadEvents(text); break;
    case 2: ReadUnits(text); break;
    default: ReadProbeText(text); break;
  }
  return 0;
}
