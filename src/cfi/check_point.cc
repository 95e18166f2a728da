// P10 to P13: what a live check knows beside the records.
#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "cfi/baseline.h"
#include "cfi/checker.h"

namespace brink::cfi {
namespace {

// Whether what stands at `at` of the code in memory is a breakpoint's: int3; brk with any number.
bool IsBreakpoint(std::span<const uint8_t> code, size_t at, decode::Machine machine) {
  if (machine == decode::Machine::kX86) return code[at] == 0xcc;
  uint32_t word;
  if (at / 4 * 4 + sizeof word > code.size()) return false;
  std::memcpy(&word, code.data() + at / 4 * 4, sizeof word);
  return (word & 0xffe0001f) == 0xd4200000;
}

}  // namespace

// P12: new edges of files that were learned.
void Checker::Learned(const CheckPoint& point) {
  if (!from_.place.facts || !to_.place.facts) return Unknown(Policy::kLearned, Reason::kNoFile);
  const std::string &from = from_.place.facts->build_id(), &to = to_.place.facts->build_id();
  if (!point.baseline->Knows(from)) return Unknown(Policy::kLearned, Reason::kNotLearned);
  if (point.baseline->HasEdge(from, from_.place.address, to, to_.place.address)) return Held(Policy::kLearned);
  Violated(Policy::kLearned, point.sensitive ? Severity::kMedium : Severity::kInfo, absl::StrFormat("this edge from %s to %s was not seen while learning", Named(from_), Named(to_)));
}

// What is asked once a window: P10, P11, P13.
void Checker::Point(const CheckPoint& point) {
  const BranchEntry here = {{.from = point.call_site, .to = point.call_site, .info = 0}};
  entry_ = window_.records.empty() ? &here : &window_.records.back();
  index_ = window_.records.empty() ? 0 : window_.records.size() - 1;
  kind_ = window_.records.empty() ? Kind::kSyscall : entry_->kind();
  switch (point.stack) {
    case StackPlace::kUnknown: Unknown(Policy::kStack, Reason::kNoMap); break;
    case StackPlace::kOwn: case StackPlace::kSignal: case StackPlace::kVisited: ++Counts(Policy::kStack).held; break;
    case StackPlace::kStrange: Violated(Policy::kStack, Severity::kInfo, "the stack pointer is where this thread has never been"); break;
    case StackPlace::kData: Pivoted(); break;
  }
  if (point.no_signal) Violated(Policy::kReturnMatch, Severity::kMedium, "the thread returns from a signal's handler although it is in none");
  if (!point.code.empty()) Unchanged(point);
  if (point.call_site) CallSite(point);
  if (point.baseline && point.sensitive && point.call_site) Path(point);
}

// Alone a coroutine; with a broken edge the means of a chain.
void Checker::Pivoted() {
  for (Violation& v : result_.violations) {
    if (v.severity == Severity::kMedium) v.severity = Severity::kHigh;
  }
  Violated(Policy::kStack, Severity::kLow, "the stack pointer is in the heap or in a file's data, where this thread has never been");
}

// P7, of the code ahead of the window: is it the file's? Breakpoints of debuggers and uprobes are.
void Checker::Unchanged(const CheckPoint& point) {
  const Side end = SideOf(point.end);
  const auto file = end.place.facts ? end.place.facts->Code(end.place.address, point.code.size()) : std::span<const uint8_t>();
  size_t differ = 0;
  for (size_t i = 0; i < file.size(); ++i) differ += file[i] != point.code[i] && !IsBreakpoint(point.code, i, end.place.facts->machine());
  if (!differ) return;
  made_ = {{.from = point.end, .to = point.end, .info = 0}};
  entry_ = &made_;
  kind_ = Kind::kUnknown;
  Violated(Policy::kDirectTarget, Severity::kMedium, "the code ahead is not the file's: " + Named(end) + " was changed");
}

// P11
void Checker::CallSite(const CheckPoint& point) {
  const Facts* facts = SideOf(point.call_site - 1).place.facts;
  const auto call = SystemCallCode(facts ? facts->machine() : decode::kHostMachine);
  const Side site = SideOf(point.call_site - call.size());
  const auto code = site.place.facts ? site.place.facts->Code(site.place.address, call.size()) : std::span<const uint8_t>();
  made_ = {{.from = point.call_site - call.size(), .to = point.call_site, .info = 0}};
  entry_ = &made_;
  kind_ = Kind::kSyscall;
  switch (site.place.memory) {
    case MemoryKind::kUnknown: return Unknown(Policy::kCallSite, Reason::kNoMap);
    case MemoryKind::kVdso: return Excepted(Policy::kCallSite, Exception::kVdso);
    case MemoryKind::kJit: return Excepted(Policy::kCallSite, Exception::kJit);
    case MemoryKind::kUprobes: return Excepted(Policy::kCallSite, Exception::kUprobe);
    case MemoryKind::kAnonymous: return Violated(Policy::kCallSite, Severity::kMedium, "the system call is made by anonymous code that nothing explains");
    case MemoryKind::kNotCode: return Unknown(Policy::kCallSite, Reason::kNoMap);  // mapped and unmapped between
    case MemoryKind::kFile: break;
  }
  if (code.size() < call.size()) return Unknown(Policy::kCallSite, Reason::kNoFile);
  if (!std::ranges::equal(code, call)) return Unknown(Policy::kCallSite, Reason::kNotDecoded);  // int 0x80, sysenter
  if (site.place.facts->IsBoundary(site.place.address) == Known::kNo) {
    return Violated(Policy::kCallSite, Severity::kHigh, "the system call instruction lies in the middle of another instruction of " + Named(site));
  }
  ++Counts(Policy::kCallSite).held;
}

// P13: the first returns below the window's start, as they were learned for this call.
void Checker::Path(const CheckPoint& point) {
  const Side site = SideOf(point.call_site);
  if (!site.place.facts || !point.baseline->Knows(site.place.facts->build_id())) return Unknown(Policy::kPath, Reason::kNotLearned);
  auto name = PathOf(window_, map_);
  if (!name) return Unknown(Policy::kPath, Reason::kBelowWindow);
  if (point.baseline->HasPath(point.call, *name)) return void(++Counts(Policy::kPath).held);
  Violated(Policy::kPath, Severity::kMedium, "this way back from the call was not seen while learning");
}

}  // namespace brink::cfi
