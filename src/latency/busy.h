// `brink latency busy`: a loop on each CPU that reads the clock without pause; a gap is time that was taken from it.
#pragma once

#include <string>

#include "latency/outputs.h"

namespace brink::latency {

struct BusyOptions {
  std::string cpus;             // "" = all allowed
  int64_t duration_ns = 0;
  int64_t gap_ns = 1000;        // shortest that counts
  int priority = 0;             // SCHED_FIFO; 0: as started
  bool blame = false;
  int64_t limit_ns = 100'000;   // gaps that are explained
  std::string command_line;
};

// From the main thread: takes SIGINT, SIGTERM and SIGHUP as the orderly end. A thread of the result is a CPU, a sample a gap.
StatusOr<Document> RunBusy(const BusyOptions& options);

}  // namespace brink::latency
