// The trigger language of --on: text -> data. Pure: nothing is looked up here.
//
// brink's spellings and bpftrace's are both taken (profile:hz:99, watchpoint:..., k: kr: t: rt: u: ur: f: fr:). Errors
// are INVALID_ARGUMENT, "column N: ..." with the nearest name; TriggerErrorColumn gives N back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::snap {

enum class TriggerKind {
  kTracepoint, kRawTracepoint, kKprobe, kKretprobe, kFentry, kFexit, kUprobe, kUretprobe, kUsdt,
  kSyscallEnter, kSyscallExit, kSignal, kSignalSent, kExec, kExit, kOom, kWatch, kSample, kPerf, kManual,
};
std::string_view TriggerKindName(TriggerKind kind);  // "tracepoint", "kprobe", ...

// Which branches are worth having: those of the code that the trigger stands in (docs/snap.md).
enum class Side { kUser, kKernel };

struct Trigger {
  TriggerKind kind = TriggerKind::kManual;
  std::string text;        // as written
  std::string category;    // tracepoints: category; usdt: provider ("" any)
  std::string name;        // tracepoint, kernel function, syscall ("*": any), usdt probe
  std::string path;        // uprobes and usdt: the file as written
  std::string symbol;      // uprobes: name or glob; "" when address or line is set
  uint64_t offset = 0;     // kprobe, uprobe: bytes behind the symbol
  uint64_t address = 0;    // uprobe: link-time address; watch: virtual address
  std::string line_file;   // uprobe: source file of FILE:LINE
  uint32_t line = 0;
  std::string watch_symbol;  // watch: name instead of an address
  uint64_t length = 0;     // watch
  uint32_t watch_mode = 0; // HW_BREAKPOINT_*
  uint64_t signals = 0;    // bit SIG-1
  bool fatal_only = false; // signal
  uint64_t period_ns = 0;  // sample
  std::string event;       // perf: the event's name
  uint64_t period = 0;     // perf

  bool glob() const;       // the name or symbol holds * or ?
  bool returns() const { return kind == TriggerKind::kKretprobe || kind == TriggerKind::kFexit || kind == TriggerKind::kUretprobe || kind == TriggerKind::kSyscallExit; }
  Side side() const;
};

StatusOr<Trigger> ParseTrigger(std::string_view text);
size_t TriggerErrorColumn(const Status& status);

// SIGSEGV, SEGV or 11 -> 11; 0 unknown.
int SignalByName(std::string_view name);
std::string SignalName(int number);  // "SIGSEGV"

// Names and short forms that ParseTrigger knows, for help.
std::vector<std::string> TriggerWords();

}  // namespace brink::snap
