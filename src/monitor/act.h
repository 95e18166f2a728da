// What user space does about an alarm where a policy file asks for it: a snapshot of the process on disk, a stop, an end.
// Later than what BPF does at the check point, and only to the process that was meant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/alarm.h"
#include "monitor/alarm_text.h"
#include "monitor/look.h"
#include "monitor/policy.h"

namespace brink::cfi {

class Actor {
 public:
  struct Options {
    bool act = false;                  // else everything is a dry run; snapshots are made all the same: they change nothing
    std::string snapshots;             // folder, which must be there; "" none
    uint64_t per_minute = 10;          // most stops and ends, and most snapshots
    uint64_t most_snapshots = 1000;    // in all: each may be half a megabyte
    std::vector<std::string> spared;   // names of programs
    TextOptions text;
  };
  explicit Actor(Options options) : options_(std::move(options)) {}

  // Does what `view` says and writes into the alarm what became of it. One thread.
  void Take(const PolicyView& view, Alarm* alarm);

 private:
  struct Budget {
    uint64_t minute = 0, used = 0;
  };
  bool Spend(Budget* budget, uint64_t time_ns) const;
  std::string Signal(const Alarm& alarm, int signal);
  std::string Snapshot(const Alarm& alarm);

  Options options_;
  Budget signals_, snapshots_;
  uint64_t snapshots_made_ = 0;
  Onlooker onlooker_;
};

// One line of JSON, schema brink.cfi.snapshot.v1: the alarm, all registers of the check point, and what a look at the
// process has shown.
std::string SnapshotJson(const Alarm& alarm, const Look& look, const TextOptions& options);

}  // namespace brink::cfi
