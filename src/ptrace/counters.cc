#include "ptrace/counters.h"

namespace brink::ptrace {
namespace {

constexpr std::string_view kNames[kStopReason] = {
    "threads",     "ticks",   "windows",     "stops",        "branches",  "without-stop", "busy",
    "sigtrap-blocked", "sigtrap-ignored", "interrupted", "gaps", "compat", "own-stepping", "strayed",
    "discarded",   "differs", "illegal-state", "no-tick",    "lost-samples", "lost-bytes",
};
constexpr std::string_view kStopNames[BRINK_STOP_MAX] = {
    "stop-none",          "stop-full",           "stop-budget",       "stop-throttled", "stop-syscall",
    "stop-miss",          "stop-unsupported",    "stop-unknown-condition", "stop-unknown-target",
    "stop-unknown-store", "stop-store-full",     "stop-fault",        "stop-code-changed", "stop-device-memory",
    "stop-translation-busy", "stop-signal",      "stop-exit",         "stop-not-user",
};

}  // namespace

std::string_view CounterName(uint32_t counter) {
  if (counter < kStopReason) return kNames[counter];
  return counter < kCounterCount ? kStopNames[counter - kStopReason] : "unknown";
}

}  // namespace brink::ptrace
