// brink snap --trace-between ENTRY..EXIT: the user branches of a span of code, from each time it is entered.
//
// An execution breakpoint at ENTRY opens the span. What follows is executed in the kernel from the registers at that moment
// (walk), or followed as it happens by ptrace (step, hop); it ends at EXIT. So "which branch decided" has an answer in
// user code on machines without branch hardware.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session/control.h"
#include "session/session.h"
#include "snap/namer.h"

namespace brink::snap {

// "PATH:PLACE..PATH:PLACE", "PATH:PLACE..PLACE" (same file), "PATH:PLACE.." or "PATH:PLACE" (until it returns). PLACE is a
// function, FUNC+OFF, 0xADDRESS or FILE:LINE, as for uprobes.
struct TraceSpan {
  std::string entry, exit;  // without "uprobe:"; exit "": the return of entry
};
StatusOr<TraceSpan> ParseTraceSpan(std::string_view text);

struct TraceStep {
  NamedAddress from, to;
  Kind kind = Kind::kUnknown;
};

// One span, oldest branch first.
struct Trace {
  const TraceSpan* span = nullptr;
  brink_sample head = {};
  std::string comm;
  int32_t inner_pid = 0, inner_tid = 0;  // as the thread sees itself; the same as outside where it has gone
  std::string source;          // "walk", "step", "hop"
  NamedAddress entry;
  std::vector<TraceStep> steps;
  bool reached = false;        // EXIT was reached: the span is whole
  std::string stop;            // why it is not: "miss", "syscall", ...
  uint64_t end = 0;            // the first address not followed
};

// Where the branches of a future stack (newest first, as it is recorded) enter EXIT's address or return from the entry.
// `taken` is how many of the oldest belong to the span. Pure.
struct SpanEnd {
  size_t taken = 0;
  bool reached = false;
};
SpanEnd FindSpanEnd(std::span<const BranchEntry> newest_first, uint64_t entry, uint64_t end_ip, std::optional<uint64_t> exit);

struct TraceRequest {
  std::string span;
  TargetSpec target;              // one process (-p) or a command
  std::string source = "auto";    // walk step hop
  uint32_t depth = 0;             // most branches of a span; 0: the source's most
  uint64_t count = 0;             // spans; 0: no end
  uint64_t duration_ns = 0;
  bool lines = true;
  RunControl* control = nullptr;  // as in RunRequest
  std::function<Status(const Trace&)> print;
  std::function<void(const std::vector<std::string>& notes)> armed;
};

struct TraceResult {
  uint64_t spans = 0, whole = 0, empty = 0;  // empty: not one branch was followed
  Books books;
  std::vector<StatLine> stats;
  std::vector<std::string> notes;
  std::optional<int> command_status;
  std::string exec_error;
  Status consumer;
};

// Blocks; SIGINT and the like, the command's end, `count` and `duration_ns` end it.
StatusOr<TraceResult> TraceBetween(TraceRequest request);

struct PrintOptions;
std::string TraceText(const Trace& trace, const PrintOptions& options);
// One object, schema "brink.snap.trace.v1", without a newline.
std::string TraceJson(const Trace& trace, const PrintOptions& options);

}  // namespace brink::snap
