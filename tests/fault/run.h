// One run of brink with one fault in it, and what must hold whatever the fault was.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control.h"
#include "support/process.h"

namespace brink::fault {

const char* KindName(Kind kind);

// What is run. In the words %/ stands for the run's own folder and %p for the process of `target`.
struct Scenario {
  std::string name;
  std::vector<std::string> words;   // behind "brink"
  bool records = false;             // `data` and %/report.json come of it
  std::string data = "%/x.data";
  std::vector<std::string> target;  // started before and killed after, where there is one
  std::string serves = {};          // what serves until it is told to end is told so shortly after this file is there
};
// brink record with these options and the report that is judged; the words behind, such as a command, come last.
Scenario Recording(const std::string& name, const std::vector<std::string>& options, const std::vector<std::string>& behind);
std::vector<Scenario> Scenarios();
// Work of some ten milliseconds, as a command line.
std::vector<std::string> ShortWork();

struct Fault {
  Kind kind = kNone;
  uint64_t nth = 0;  // 0: none
  int error = 0;     // as in Control
  bool always = false;
};

struct Outcome {
  testing_support::ProcessResult process;
  uint64_t injected = 0;
  uint64_t calls[kKinds] = {};
  std::string problem;  // "" if everything held
};

// Runs it and judges:
//   it ends by itself, never by a signal of its own making, with all it started;
//   status 0 or 3: the recording opens, holds what the report says was written, and sent = written + lost;
//   any other: one line that begins with "brink", and a recording that is absent, empty or opens;
//   no BPF program and no cgroup of the run is left.
Outcome RunWith(const Scenario& scenario, const Fault& fault);

// A complete recording against the report of its run (report.json in `folder`): the problem, or "".
std::string JudgeRecording(const std::string& path, const std::string& folder);

// Faults injected and outcomes, for the table.
class Tally {
 public:
  void Add(const Scenario& scenario, const Fault& fault, const Outcome& outcome);
  std::string Table() const;

 private:
  struct Row {
    uint64_t injected = 0, unharmed = 0, incomplete = 0, refused = 0, ended = 0, failed = 0;
  };
  std::map<std::string, Row> rows_;
};

}  // namespace brink::fault
