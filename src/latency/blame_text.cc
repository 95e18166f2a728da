#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "latency/blame.h"

namespace brink::latency {

std::string_view CauseName(Cause cause) {
  switch (cause) {
    case Cause::kUnknown: return "unknown";
    case Cause::kTask: return "task";
    case Cause::kInterrupt: return "interrupt";
    case Cause::kSoftirq: return "softirq";
    case Cause::kInterruptsOff: return "interrupts-off";
    case Cause::kQuota: return "cpu-quota";
    case Cause::kPageFaults: return "page-faults";
    case Cause::kReclaim: return "memory-pressure";
    case Cause::kLockHolder: return "lock-holder";
    case Cause::kOutside: return "outside";
    case Cause::kIdleExit: return "idle-exit";
    case Cause::kTimerSlack: return "timer-slack";
    case Cause::kLastCycle: return "last-cycle";
  }
  return "?";
}

std::string SpikeText(const SpikeReport& spike) {
  std::string out = absl::StrFormat("late by %.1f us on CPU %d (thread %d, cycle %d): %s\n", static_cast<double>(spike.lateness_ns) / 1000, spike.cpu, spike.tid, spike.cycle,
                                    EscapeForTerminal(spike.verdict));
  for (const BlameLine& line : spike.lines) {
    if (line.part.empty()) out += "                            " + EscapeForTerminal(line.text) + "\n";
    else absl::StrAppendFormat(&out, "  %12.1f us  %-11s %s\n", static_cast<double>(line.ns) / 1000, line.part, EscapeForTerminal(line.text));
  }
  if (!spike.kernel_stack.empty() || !spike.user_stack.empty()) {
    absl::StrAppendFormat(&out, "  stack of %s\n", EscapeForTerminal(spike.stack_of));
    for (const std::string& frame : spike.kernel_stack) out += "      " + EscapeForTerminal(frame) + "\n";
    if (!spike.user_stack.empty()) out += "      -- user --\n";
    for (const std::string& frame : spike.user_stack) out += "      " + EscapeForTerminal(frame) + "\n";
  }
  if (!spike.branches.empty()) out += "  branches before, newest first\n";
  for (const std::string& branch : spike.branches) out += "      " + EscapeForTerminal(branch) + "\n";
  if (!spike.previous_branches.empty()) absl::StrAppendFormat(&out, "  branches before the timer interrupt %.1f us earlier, newest first\n", static_cast<double>(spike.previous_ns) / 1000);
  for (const std::string& branch : spike.previous_branches) out += "      " + EscapeForTerminal(branch) + "\n";
  if (!spike.walked_of.empty()) {
    absl::StrAppendFormat(&out, "  user code of %s from where the wake-up interrupted it, walked: %d branches, then %s\n", EscapeForTerminal(spike.walked_of), spike.walked.size(), EscapeForTerminal(spike.walked_end));
  }
  for (const std::string& branch : spike.walked) out += "      " + EscapeForTerminal(branch) + "\n";
  if (!spike.branches_missing.empty()) out += "  no branches: " + EscapeForTerminal(spike.branches_missing) + "\n";
  return out;
}

}  // namespace brink::latency
