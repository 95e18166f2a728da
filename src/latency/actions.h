// What --on-threshold does with a report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "latency/blame.h"

namespace brink::latency {

// In the order given; the first that fails ends the list for this report. At most ten reports a second are acted on,
// `stop` always is. Display thread only.
class ThresholdActions {
 public:
  static StatusOr<ThresholdActions> Parse(const std::vector<std::string>& words);
  void Run(const SpikeReport& spike);
  bool stop() const { return stop_; }
  bool wants_trace() const;
  // Set by the owner of the trace: marks it and stops it.
  std::function<void(const SpikeReport&)> trace;

 private:
  enum class Kind { kStop, kContinue, kTrace, kSignal, kExec };
  struct Action {
    Kind kind;
    int signal = 0;
    int pid = 0;
    std::string command;
  };
  bool Do(const Action& action, const SpikeReport& spike);
  std::vector<Action> actions_;
  bool stop_ = false;
  int64_t second_ = 0;
  int done_ = 0;
};

}  // namespace brink::latency
