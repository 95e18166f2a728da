// Every call that can fail for reasons outside of brink is made to fail, one a run.
//   default: one call of each kind, of a recording with the walk source and some of the others
//   BRINK_LONG=1: each call; of kinds with more than BRINK_FAULT_MOST (120) in a run, evenly chosen ones
//   BRINK_FAULT=SCENARIO:KIND[:FROM[:TO]] (parts of names): only these, each call, and what is printed
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/strings.h"
#include "run.h"
#include "support/features.h"

namespace brink::fault {
namespace {

struct Way {
  Kind kind;
  int error;
  bool always;
};

// The usual reason of each kind, and where it matters a second one.
std::vector<Way> Ways() {
  std::vector<Way> ways = {{kWrite, ENOSPC, false}, {kWrite, ENOSPC, true}, {kWrite, EIO, false}, {kShort, 0, false}, {kThread, EAGAIN, false},
                           {kPerf, EMFILE, false}, {kPerf, ENODEV, true}, {kBpf, ENOMEM, false}, {kBpf, EPERM, true}, {kPoll, EINTR, false},
                           {kPoll, ENOMEM, false}, {kMap, ENOMEM, false}, {kControl, EIO, false}, {kFork, EAGAIN, false}, {kOpen, EMFILE, false},
                           {kRead, EIO, false}, {kNewFd, EMFILE, false}, {kPtrace, EPERM, false}, {kClock, 3600, true}, {kClock, -3600, true},
                           {kKill, 0, false}, {kStop, 0, false}};
#ifndef BRINK_FAULT_SANITIZED
  ways.push_back({kMemory, ENOMEM, false});
#endif
  return ways;
}

std::string Name(const Way& way) { return std::string(KindName(way.kind)) + (way.always ? ", from there on" : ""); }

// Calls 1 to `calls`, all or at most `most` of them: the first and the last, and evenly between.
std::vector<uint64_t> Chosen(uint64_t calls, uint64_t most) {
  std::vector<uint64_t> chosen;
  if (calls <= most) {
    for (uint64_t i = 1; i <= calls; ++i) chosen.push_back(i);
    return chosen;
  }
  for (uint64_t i = 0; i < most; ++i) chosen.push_back(most == 1 ? (calls + 1) / 2 : 1 + i * (calls - 1) / (most - 1));
  return chosen;
}

struct Only {
  std::string scenario, kind;
  uint64_t from = 1, to = UINT64_MAX;
  bool set = false;

  static Only FromEnvironment() {
    Only only;
    const char* text = std::getenv("BRINK_FAULT");
    if (!text) return only;
    only.set = true;
    std::vector<std::string> parts;
    for (std::string_view part : Split(text, ':')) parts.emplace_back(part);
    parts.resize(4);
    only.scenario = parts[0];
    only.kind = parts[1];
    if (!parts[2].empty()) only.from = only.to = std::stoull(parts[2]);
    if (!parts[3].empty()) only.to = std::stoull(parts[3]);
    return only;
  }
  bool Wants(const std::string& name, const std::string& way) const {
    return !set || (name.find(scenario) != std::string::npos && way.find(kind) != std::string::npos);
  }
};

class Sweep {
 public:
  Sweep() : only_(Only::FromEnvironment()), long_(std::getenv("BRINK_LONG") != nullptr) {
    if (const char* most = std::getenv("BRINK_FAULT_MOST")) most_ = std::stoull(most);
  }

  void Run(const Scenario& scenario) {
    const Outcome bare = RunWith(scenario, {});
    ASSERT_EQ(bare.problem, "") << scenario.name << ": " << bare.process.err;
    ASSERT_TRUE(bare.process.status == 0 || bare.process.status == 3) << bare.process.status << ' ' << scenario.name << ": " << bare.process.err;
    for (const Way& way : Ways()) {
      if (!only_.Wants(scenario.name, Name(way))) continue;
      if (!long_ && !only_.set && !InShort(scenario, way)) continue;
      const uint64_t most = !long_ ? (only_.set ? UINT64_MAX : 1) : way.always ? (most_ + 2) / 3 : most_;
      for (uint64_t nth : Chosen(bare.calls[way.kind], most)) {
        if (nth >= only_.from && nth <= only_.to) One(scenario, way, nth);
      }
    }
  }

  std::string Table() const { return tally_.Table(); }

 private:
  static bool InShort(const Scenario& scenario, const Way& way) {
    if (scenario.name == "record walk") return true;
    return !way.always && (way.kind == kThread || way.kind == kPerf || way.kind == kBpf || way.kind == kKill || way.kind == kPtrace);
  }
  void One(const Scenario& scenario, const Way& way, uint64_t nth) {
    const Fault fault = {.kind = way.kind, .nth = nth, .error = way.error, .always = way.always};
    const Outcome outcome = RunWith(scenario, fault);
    tally_.Add(scenario, fault, outcome);
    if (only_.set) {
      std::fprintf(stderr, "%s, %s %d: status %d, %d injected\n%s", scenario.name.c_str(), Name(way).c_str(), static_cast<int>(nth), outcome.process.status,
                   static_cast<int>(outcome.injected), outcome.process.err.c_str());
    }
    EXPECT_EQ(outcome.problem, "") << scenario.name << ", " << Name(way) << " " << nth << " (" << way.error << "): status " << outcome.process.status << "\n"
                                   << outcome.process.err;
  }

  Only only_;
  bool long_;
  uint64_t most_ = 120;
  Tally tally_;
};

TEST(Fault, EveryCallMayFail) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("perf.cpu_clock");
  Sweep sweep;
  for (const Scenario& scenario : Scenarios()) sweep.Run(scenario);
  std::printf("%s", sweep.Table().c_str());
  if (const char* path = std::getenv("BRINK_FAULT_TABLE")) std::ofstream(path) << sweep.Table();
}

}  // namespace
}  // namespace brink::fault
