#include "base/stop.h"

namespace brink {

std::string_view StopReasonName(int stop) {
  static constexpr std::string_view kNames[] = {
      "none",           "full",          "budget",     "throttled", "syscall",      "miss",          "unsupported",      "unknown-condition",
      "unknown-target", "unknown-store", "store-full", "fault",     "code-changed", "device-memory", "translation-busy", "signal",
      "exit",           "not-user"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == BRINK_STOP_MAX);
  return stop >= 0 && stop < BRINK_STOP_MAX ? kNames[stop] : "?";
}

}  // namespace brink
