// One run of brink cfi: checks attached, windows judged, alarms told and acted on, until the end that was asked for.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cfi/baseline.h"
#include "monitor/book.h"
#include "monitor/judge.h"
#include "monitor/sinks.h"
#include "monitor/source.h"
#include "session/session.h"

namespace brink::cfi {

struct RunRequest {
  CheckRequest check;
  TargetSpec target;
  std::vector<std::string> containers, pods;  // words of the user; resolved to cgroups at the start
  std::string runtime_root;
  std::vector<std::string> sinks = {"text:-"};
  TextOptions text;
  Severity least = Severity::kMedium;     // alarms below are counted only
  std::vector<std::string> policies;      // files, read anew on SIGHUP
  std::string baseline;                   // of `brink cfi learn`; "" none
  std::string learn;                      // file to write what was seen; "" none
  std::string metrics;                    // Prometheus text file, written anew each few seconds; "" none
  bool every = false;                     // tell equal alarms each time (tests)
  bool act = false;                       // policy actions are taken, not only told
  std::string snapshots;                  // folder for what policy files want kept of a process; "" none
  bool jit_allowed = false;               // anonymous code is legal everywhere
  bool warm = true;                       // lift the target's files beforehand
  uint64_t duration_ns = 0;
  uint64_t sample_period_ns = 0;          // periodic samples; 0: none
  FactLimits facts;
  std::function<void(const std::vector<std::string>& notes)> armed;
  std::function<void(const std::string& line)> say;  // once, when most checks have found their process vetted
};

struct RunReport {
  JudgeCounts judge;
  CheckCounts checks = {};
  bool hardware = false;                  // entries were judged by hardware branches
  LiftStats lift;
  uint64_t told = 0, repeated = 0, limited = 0, below = 0;
  uint64_t alarms_at_or_above = 0;        // of `least`, told or not
  std::map<std::string, uint64_t> sink_failures;
  uint64_t reloads = 0, bad_reloads = 0;
  uint64_t elapsed_ns = 0;
  Books books;
  std::vector<StatLine> stats;
  std::vector<std::string> notes;
  std::optional<int> command_status;
  std::string exec_error;
  bool command_decides = false;
  size_t learned_edges = 0, learned_paths = 0, learned_files = 0;
  Status consumer;
};

// Blocks. SIGINT and SIGTERM end it in order, SIGHUP reads the policy files again (a file with an error leaves what was
// in force), SIGUSR1 writes the metrics now.
StatusOr<RunReport> RunMonitor(RunRequest request);

std::string ReportText(const RunReport& report);
std::string ReportJson(const RunReport& report);
std::string MetricsText(const RunReport& report);

}  // namespace brink::cfi
