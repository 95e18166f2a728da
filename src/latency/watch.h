// `brink latency watch`: the wake-up latency of threads that do their own work, from sched_waking to the switch-in, and
// their long waits for locks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brink/abi/latency.h"
#include "latency/outputs.h"

namespace brink::latency {

struct WatchOptions {
  std::vector<pid_t> processes, threads;
  std::string container;            // id, name or pod
  bool all = false;
  int64_t duration_ns = 0;          // 0: until a signal, or until every named process is gone
  int64_t limit_ns = 1'000'000;     // of a wake-up that is explained
  int64_t block_limit_ns = 1'000'000;  // of a wait for a futex that is explained; 0 never
  size_t keep = 1000;
  std::string command_line;
};

// From the main thread: takes SIGINT, SIGTERM and SIGHUP as the orderly end.
StatusOr<Document> RunWatch(const WatchOptions& options);

// A long sleep in a futex: who woke the thread, and what kept the waker. Rows add up to the sleep. Pure.
SpikeReport ExplainBlocked(const brink_lat_spike& spike);

}  // namespace brink::latency
