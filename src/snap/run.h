// One run of brink snap: triggers armed, captures printed and written, until the end that was asked for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session/control.h"
#include "session/session.h"
#include "snap/print.h"
#include "snap/snap_source.h"

namespace brink::snap {

struct RunRequest {
  SnapRequest snap;
  TargetSpec target;
  std::string output;                 // perf.data as well; "" none
  bool lines = true;                  // source lines
  std::optional<bool> trim;           // false: keep brink's own entries (tests)
  uint64_t duration_ns = 0;           // 0: no limit
  // Each capture, on the writer thread, in the order of arrival. An error ends the run.
  std::function<Status(const Capture&)> print;
  // The triggers are armed: called once.
  std::function<void(const std::vector<std::string>& notes)> armed;
  // Everything has been looked up and nothing is loaded yet: an error is the end. May be empty.
  std::function<Status(const SnapSource&)> admit;
  // Set: signals are left alone, and this steers the run. Outlives it.
  RunControl* control = nullptr;
};

struct RunResult {
  uint64_t captures = 0;
  Books books;
  std::vector<StatLine> stats;
  std::vector<std::string> notes;
  std::optional<int> command_status;  // exit status, 128 + signal, 126 or 127
  std::string exec_error;
  bool command_decides = false;       // the command's end was the end of the run
  uint64_t detach_ns = 0;             // from the end to nothing attached
  Status consumer;
};

// Blocks. SIGINT, SIGTERM and SIGHUP end it in order, SIGUSR1 fires the manual trigger; `count` captures of the request,
// the end of the command or of the target end it too.
StatusOr<RunResult> Run(RunRequest request);

}  // namespace brink::snap
