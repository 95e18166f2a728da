// `brink latency busy`: a loop on each CPU that reads the clock without pause; a gap is time that was taken from it.
#pragma once

#include <string>

#include "latency/outputs.h"
#include "latency/thread.h"

namespace brink::latency {

struct BusyOptions {
  std::string cpus;             // "" = all allowed
  int64_t duration_ns = 0;
  int64_t gap_ns = 1000;        // shortest that counts
  int priority = 0;             // SCHED_FIFO; 0: as started
  bool blame = false;
  int64_t limit_ns = 100'000;   // gaps that are explained
  size_t copied = 0;            // bytes that each turn of the loop copies as its work; 0: none
  bool bias = false;            // the least turn of a short rehearsal is taken off each
  int64_t stop_above_ns = 0;    // the first gap above ends the run; 0: none does
  BreakHook* break_hook = nullptr;  // told about that gap by the loop itself
  std::string command_line;
};

// From the main thread: takes SIGINT, SIGTERM and SIGHUP as the orderly end. A thread of the result is a CPU, a sample a gap.
StatusOr<Document> RunBusy(const BusyOptions& options);

}  // namespace brink::latency
