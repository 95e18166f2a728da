// Control-flow integrity judged from branch records: a pure core over one window of records, facts about the files they
// lie in, and a map of the process. No files, no kernel, no clock.
//
// Every policy answers held, violated, excepted (recognised as legal: X1 to X9) or unknown with a reason; unknown never
// raises an alarm. Policies that need every call and return (P2) or every branch (P6, P9) are not asked of windows that
// lack them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"
#include "cfi/facts.h"

namespace brink::cfi {

enum class Policy : uint8_t {
  kReturnSite,      // P1: a return goes behind a call
  kReturnMatch,     // P2: and to the call that made it
  kCallTarget,      // P3: an indirect call goes to a function's entry
  kJumpTarget,      // P4: an indirect jump stays in its function or goes to an entry; a PLT slot leads to its symbol
  kBoundary,        // P5: indirect targets are instruction boundaries
  kStraightLine,    // P6: no unconditional transfer between two records
  kDirectTarget,    // P7: direct branches go where the file says
  kMemory,          // P8: code lies in files
  kGadgets,         // P9: long chains of short pieces
  kStack,           // P10: the stack pointer is in a stack
  kCallSite,        // P11: a system call is made by an instruction of a file
  kLearned,         // P12: an indirect edge of a learned file was seen while learning
  kPath,            // P13: the way back from a sensitive call was seen while learning
};
inline constexpr size_t kPolicyCount = 13;
std::string_view PolicyName(Policy policy);  // "P1"
std::string_view PolicyText(Policy policy);  // in words

// What is legal although a policy fails.
enum class Exception : uint8_t { kSignal, kVdso, kLongjmp, kUnwinder, kContext, kLazyBinding, kJit, kGo, kThunk, kUprobe };
inline constexpr size_t kExceptionCount = 10;
std::string_view ExceptionName(Exception exception);  // "X1 signal return"

enum class Reason : uint8_t { kNoMap, kNoFile, kNoFunction, kBelowWindow, kNotDecoded, kElsewhere, kFiltered, kNotLearned };
inline constexpr size_t kReasonCount = 8;
std::string_view ReasonName(Reason reason);

enum class Severity : uint8_t { kInfo, kLow, kMedium, kHigh };
std::string_view SeverityName(Severity severity);
StatusOr<Severity> ParseSeverity(std::string_view text);

// What an address is in a process.
enum class MemoryKind : uint8_t {
  kUnknown,    // nothing is known about the process
  kFile,       // executable mapping of a file
  kVdso,
  kJit,        // anonymous code that the policy or a JIT's own map explains
  kUprobes,    // the kernel's out-of-line page
  kAnonymous,  // anonymous code that nothing explains
  kNotCode,    // not executable or not mapped
};
struct Place {
  MemoryKind memory = MemoryKind::kUnknown;
  Facts* facts = nullptr;    // nullptr: the file is not at hand
  uint64_t address = 0;      // in the file's own addresses
  uint32_t module = 0;       // equal for equal files
  bool loader = false;       // the dynamic linker
};
class CodeMap {
 public:
  virtual ~CodeMap() = default;
  virtual Place At(uint64_t address) = 0;
};

class Baseline;

// Where the stack pointer is, as far as the checker of live threads knows.
enum class StackPlace : uint8_t {
  kUnknown,
  kOwn,      // the main thread's, or where this thread was first seen
  kSignal,   // its alternate signal stack
  kVisited,  // where this thread has been before without a violation: coroutines
  kStrange,  // never seen before
  kData,     // never seen before, and it is the heap or a file's data
};

// What a live check knows beside the records (replay has none).
struct CheckPoint {
  StackPlace stack = StackPlace::kUnknown;
  uint64_t call_site = 0;      // behind the system call instruction; 0: none
  uint32_t call = ~0u;         // its number
  bool sensitive = false;
  bool not_code = false;       // the kernel says that the newest record's target is not executable
  bool no_signal = false;      // the call is rt_sigreturn, and the thread is in no signal's handler
  const Baseline* baseline = nullptr;
  uint64_t end = 0;                // where a walk ended at code that was new to it or had changed
  std::span<const uint8_t> code;   // what is there now
};

struct Window {
  std::span<const BranchEntry> records;  // newest first
  bool contiguous = true;                // every taken branch between oldest and newest
  bool calls_and_returns = true;         // every call and return
  bool future = false;                   // walked ahead: a target of 0 is the address 0, not a hidden one
  std::optional<CheckPoint> point;
};

struct Violation {
  Policy policy = Policy::kReturnSite;
  Severity severity = Severity::kMedium;
  size_t index = 0;  // in Window::records
  uint64_t from = 0, to = 0;
  Kind kind = Kind::kUnknown;
  std::string reason;
};

struct PolicyCounts {
  uint64_t held = 0, violated = 0, excepted = 0;
  std::array<uint64_t, kReasonCount> unknown = {};
  uint64_t unknown_total() const;
};

struct Result {
  std::vector<Violation> violations;  // oldest record first
  std::array<PolicyCounts, kPolicyCount> policies = {};
  std::array<uint64_t, kExceptionCount> exceptions = {};
  uint64_t edges = 0, checked = 0;  // records of user code; those on which a policy gave an answer
  uint64_t unwind_edges = 0, unwind_unknown = 0;  // returns, indirect calls and jumps between files with unwind tables; those without an answer of P1 to P5
  size_t gadget_run = 0;            // P9: longest chain
  uint64_t forgotten = 0;           // records from before the thread's program was executed
  Severity severity = Severity::kInfo;
};

// Adds to `result`: counts of several windows go into one. The violations and the severity are those of this window.
void Check(const Window& window, CodeMap& map, Result* result);

}  // namespace brink::cfi
