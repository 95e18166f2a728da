#include "ptrace/counters.h"

#include <array>
#include <string>

#include "base/stop.h"

namespace brink::ptrace {
namespace {

constexpr std::string_view kNames[kStopReason] = {
    "threads",     "ticks",   "windows",     "stops",        "branches",  "without-stop", "busy",
    "sigtrap-blocked", "sigtrap-ignored", "interrupted", "gaps", "compat", "own-stepping", "strayed",
    "discarded",   "differs", "illegal-state", "no-tick",    "lost-samples", "lost-bytes",
};
// "stop-full", ...
const std::array<std::string, BRINK_STOP_MAX>& StopNames() {
  static const auto names = [] {
    std::array<std::string, BRINK_STOP_MAX> out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = "stop-" + std::string(StopReasonName(static_cast<int>(i)));
    return out;
  }();
  return names;
}

}  // namespace

std::string_view CounterName(uint32_t counter) {
  if (counter < kStopReason) return kNames[counter];
  return counter < kCounterCount ? std::string_view(StopNames()[counter - kStopReason]) : "unknown";
}

}  // namespace brink::ptrace
