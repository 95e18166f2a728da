// An alarm: what is broken in one window at one place, with everything that a reader needs to judge it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brink/abi/cfi.h"
#include "cfi/policies.h"
#include "cfi/process_map.h"

namespace brink::cfi {

// Of the process as /proc shows it when the alarm is made; empty where it has gone.
struct ProcessFacts {
  std::string exec_id;  // of this image, the same after a restart of brink: boot id, start time, pid
  std::string exe, cwd;
  std::vector<std::string> args;
  int64_t auid = -1;  // the user is the alarm's: of the check point
  uint64_t pid_ns = 0, mnt_ns = 0, net_ns = 0;
  struct Ancestor {
    int32_t pid = 0;
    std::string comm, exe;
  };
  std::vector<Ancestor> ancestors;  // the parent first
};

struct ContainerFacts {
  std::string id, name, image, runtime, pod_name, pod_namespace, pod_uid, cgroup;
};

struct Alarm {
  std::vector<Violation> violations;  // of one edge; the most severe first
  EventSide from, to;
  Severity severity = Severity::kInfo;
  uint32_t score = 0;                 // 0 to 100
  std::string suppressed_by;          // policy rule that takes it back to info; "" none

  int32_t pid = 0, tid = 0;
  uint64_t start_ns = 0;              // of the process, since boot
  std::string comm;
  ProcessFacts process;
  ContainerFacts container;

  uint64_t time_ns = 0;               // CLOCK_MONOTONIC
  brink_cfi context = {};
  std::vector<BranchEntry> branches;  // newest first
  std::vector<std::string> names;     // "symbol+0x.. [file]" of both sides of each branch, from then to
  bool future = true;
  uint32_t stop = 0, steps = 0, walk_ns = 0, depth = 0;
  uint64_t lost = 0;                  // records and mappings lost so far in this run: evidence may be missing
  uint64_t suppressed_count = 0;      // equal alarms since the last one that was told
  std::string action, action_result;  // of user space; what BPF did is in `context`
};

// The rule that gives an alarm its name: that of its most severe violation.
Policy MainPolicy(const Alarm& alarm);
// Three violations at one place are more than one: 100 is certain.
uint32_t ScoreOf(const std::vector<Violation>& violations, const brink_cfi& context);
// What is known about a process now.
ProcessFacts ReadProcess(int32_t pid, uint64_t start_ns);

}  // namespace brink::cfi
