// The names of what policies answer.
#include "cfi/policies.h"

namespace brink::cfi {

uint64_t PolicyCounts::unknown_total() const {
  uint64_t sum = 0;
  for (uint64_t n : unknown) sum += n;
  return sum;
}

std::string_view PolicyName(Policy policy) {
  constexpr std::string_view kNames[] = {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13"};
  return kNames[static_cast<size_t>(policy)];
}

std::string_view PolicyText(Policy policy) {
  constexpr std::string_view kTexts[] = {"a return goes behind a call", "a return goes to the call that made it", "an indirect call goes to a function's entry",
                                         "an indirect jump stays in its function or goes to an entry", "a target is an instruction's beginning", "code between two records is straight",
                                         "a direct branch goes where the file says", "code lies in files", "no long chain of short pieces",
                                         "the stack pointer is in a stack", "a system call is an instruction of a file", "an indirect edge was learned", "the way back from a sensitive call was learned"};
  return kTexts[static_cast<size_t>(policy)];
}

std::string_view ExceptionName(Exception exception) {
  constexpr std::string_view kNames[] = {"X1 signal return", "X2 vdso", "X3 longjmp", "X4 unwinder", "X5 context switch", "X6 lazy binding", "X7 jit", "X8 go", "X9 thunk", "X9 uprobe"};
  return kNames[static_cast<size_t>(exception)];
}

std::string_view ReasonName(Reason reason) {
  constexpr std::string_view kNames[] = {"no_map", "no_file", "no_function", "below_window", "not_decoded", "elsewhere", "filtered", "not_learned"};
  return kNames[static_cast<size_t>(reason)];
}

std::string_view SeverityName(Severity severity) {
  constexpr std::string_view kNames[] = {"info", "low", "medium", "high"};
  return kNames[static_cast<size_t>(severity)];
}

StatusOr<Severity> ParseSeverity(std::string_view text) {
  for (Severity s : {Severity::kInfo, Severity::kLow, Severity::kMedium, Severity::kHigh}) {
    if (text == SeverityName(s)) return s;
  }
  return InvalidArgument("a severity is info, low, medium or high");
}

}  // namespace brink::cfi
