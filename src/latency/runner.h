// One measurement from start to end: threads, display, signals, files, result.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>

#include "latency/result.h"
#include "latency/thread.h"

namespace brink::latency {

// What the blaming side adds to a run.
struct RunHooks {
  std::function<std::unique_ptr<WakeObserver>(const ThreadConfig&)> observer;  // may be empty
  // Called in the display thread every 10 ms and once at the end, before the result is made.
  // False ends the run.
  std::function<bool(bool last)> tick;
  BreakHook* break_hook = nullptr;
};

// Runs until the configured end, a break, SIGINT, SIGTERM or SIGHUP. Prints what is printed while it runs (live frame,
// -v samples) and warnings; the result's texts are the caller's. Takes over the signals of the calling process while it
// runs: call it from the main thread before others exist.
StatusOr<Result> RunMeasurement(const Config& config, const RunHooks& hooks, const std::string& command_line);

}  // namespace brink::latency
