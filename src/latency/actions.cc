#include "latency/actions.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>

#include "base/strings.h"
#include "base/units.h"
#include "latency/clock.h"

namespace brink::latency {

StatusOr<ThresholdActions> ThresholdActions::Parse(const std::vector<std::string>& words) {
  ThresholdActions actions;
  for (const std::string& word : words) {
    if (word == "stop") {
      actions.actions_.push_back({Kind::kStop});
    } else if (word == "continue") {
      actions.actions_.push_back({Kind::kContinue});
    } else if (word == "trace") {
      actions.actions_.push_back({Kind::kTrace});
    } else if (word.starts_with("exec:") && word.size() > 5) {
      actions.actions_.push_back({.kind = Kind::kExec, .command = word.substr(5)});
    } else if (word == "signal" || word.starts_with("signal:")) {
      auto parts = Split(word, ':');
      StatusOr<uint64_t> number = parts.size() > 1 ? ParseUint(parts[1]) : StatusOr<uint64_t>(SIGUSR1);
      StatusOr<uint64_t> pid = parts.size() > 2 && parts[2] != "parent" ? ParseUint(parts[2]) : StatusOr<uint64_t>(static_cast<uint64_t>(::getppid()));
      if (parts.size() > 3 || !number.ok() || !pid.ok() || *number < 1 || *number > 64 || *pid < 1 || *pid > INT32_MAX) {
        return InvalidArgument("--on-threshold: signal[:NUM[:PID|parent]], as in signal:10:4711");
      }
      actions.actions_.push_back({.kind = Kind::kSignal, .signal = static_cast<int>(*number), .pid = static_cast<int>(*pid)});
    } else {
      return InvalidArgument("--on-threshold: '" + EscapeForTerminal(word) + "' is none of stop, continue, trace, signal[:NUM[:PID|parent]], exec:COMMAND");
    }
  }
  return actions;
}

bool ThresholdActions::wants_trace() const {
  for (const Action& action : actions_) {
    if (action.kind == Kind::kTrace) return true;
  }
  return false;
}

void ThresholdActions::Run(const SpikeReport& spike) {
  constexpr int kPerSecond = 10;
  int64_t second = NowNs(CLOCK_MONOTONIC) / kNsPerSec;
  if (second != second_) second_ = second, done_ = 0;
  bool limited = done_++ >= kPerSecond;
  for (const Action& action : actions_) {
    if (limited && action.kind != Kind::kStop) continue;
    if (!Do(action, spike)) return;
  }
}

bool ThresholdActions::Do(const Action& action, const SpikeReport& spike) {
  switch (action.kind) {
    case Kind::kStop: stop_ = true; return true;
    case Kind::kContinue: return true;
    case Kind::kTrace:
      if (trace) trace(spike);
      return true;
    case Kind::kSignal: return ::kill(action.pid, action.signal) == 0;
    case Kind::kExec: {
      std::FILE* pipe = ::popen(action.command.c_str(), "w");
      if (!pipe) return false;
      std::string text = SpikeText(spike);
      std::fwrite(text.data(), 1, text.size(), pipe);
      return ::pclose(pipe) == 0;
    }
  }
  return false;
}

}  // namespace brink::latency
