#include "snap/trigger.h"

#include <linux/hw_breakpoint.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <functional>

#include "base/strings.h"
#include "base/units.h"
#include "snap/syscalls.h"

namespace brink::snap {
namespace {

constexpr const char* kColumnPayload = "brink.snap.column";

Status At(size_t column, const std::string& message) {
  Status status = InvalidArgument("column " + std::to_string(column + 1) + ": " + message);
  status.SetPayload(kColumnPayload, absl::Cord(std::to_string(column + 1)));
  return status;
}

// The parts between colons, with the column where each begins.
struct Part {
  std::string_view text;
  size_t column = 0;
};

struct Words {
  std::vector<Part> parts;
  size_t end = 0;  // column behind the text

  explicit Words(std::string_view text) : end(text.size()) {
    size_t at = 0;
    for (std::string_view part : Split(text, ':')) {
      parts.push_back({part, at});
      at += part.size() + 1;
    }
  }
  size_t size() const { return parts.size(); }
  Part operator[](size_t i) const { return i < parts.size() ? parts[i] : Part{"", end}; }
};

using Parser = Status (*)(const Words& words, Trigger* trigger);

Status Missing(const Words& words, size_t part, const char* what) { return At(words[part].column, std::string("missing ") + what); }

Status NoMore(const Words& words, size_t most) {
  if (words.size() > most) return At(words[most].column - 1, "unexpected ':" + EscapeForTerminal(words[most].text) + "'");
  return OkStatus();
}

Status Tracepoint(const Words& words, Trigger* trigger) {
  if (words[1].text.empty()) return Missing(words, 1, "the tracepoint's category; example: tracepoint:sched:sched_switch");
  if (words[2].text.empty()) return Missing(words, 2, "the tracepoint's name; example: tracepoint:sched:sched_switch");
  trigger->category = words[1].text;
  trigger->name = words[2].text;
  return NoMore(words, 3);
}

Status RawTracepoint(const Words& words, Trigger* trigger) {
  // bpftrace's newer form names the category too.
  trigger->name = words.size() > 2 ? words[2].text : words[1].text;
  if (trigger->name.empty()) return Missing(words, words.size() > 2 ? 2 : 1, "the tracepoint's name; example: raw_tracepoint:sched_switch");
  return NoMore(words, 3);
}

// NAME or NAME+OFFSET at `part`.
Status NameAndOffset(Part part, std::string* name, uint64_t* offset) {
  size_t plus = part.text.rfind('+');
  *name = part.text.substr(0, plus);
  if (plus == std::string_view::npos) return OkStatus();
  auto number = ParseUint(part.text.substr(plus + 1));
  if (!number.ok()) return At(part.column + plus + 1, "the offset '" + EscapeForTerminal(part.text.substr(plus + 1)) + "' is no number");
  *offset = *number;
  return OkStatus();
}

Status KernelFunction(const Words& words, Trigger* trigger) {
  // bpftrace writes kprobe:MODULE:FUNCTION and fentry:vmlinux:FUNCTION too.
  Part part = words.size() > 2 ? words[2] : words[1];
  if (part.text.empty()) return At(part.column, "missing the kernel function; example: " + std::string(words[0].text) + ":do_sys_openat2");
  RETURN_IF_ERROR(NameAndOffset(part, &trigger->name, &trigger->offset));
  if (trigger->offset && trigger->kind != TriggerKind::kKprobe) return At(part.column, std::string(TriggerKindName(trigger->kind)) + " takes a function without an offset; kprobe takes one");
  if (trigger->name.empty()) return At(part.column, "missing the function before the offset");
  return NoMore(words, 3);
}

// PATH:SYMBOL[+OFF], PATH:0xADDRESS, PATH:FILE.c:LINE
Status UserPlace(const Words& words, Trigger* trigger) {
  if (words[1].text.empty()) return Missing(words, 1, "the program or library; example: uprobe:/usr/bin/bash:readline");
  trigger->path = words[1].text;
  Part place = words[2];
  if (place.text.empty()) return At(place.column, "missing the function, 0xADDRESS or FILE:LINE in " + EscapeForTerminal(trigger->path));
  if (words.size() > 3) {
    // C++ names hold colons: PATH:ns::f, and a number at the end is a line.
    auto line = ParseUint(words[words.size() - 1].text);
    if (words.size() == 4 && line.ok() && *line > 0 && *line <= UINT32_MAX) {
      trigger->line_file = place.text;
      trigger->line = static_cast<uint32_t>(*line);
      return OkStatus();
    }
    Part last = words[words.size() - 1];
    const char* begin = place.text.data();
    place.text = std::string_view(begin, static_cast<size_t>(last.text.data() + last.text.size() - begin));
  }
  if (place.text.starts_with("0x")) {
    auto address = ParseUint(place.text);
    if (!address.ok()) return At(place.column, "'" + EscapeForTerminal(place.text) + "' is no address");
    trigger->address = *address;
    return OkStatus();
  }
  RETURN_IF_ERROR(NameAndOffset(place, &trigger->symbol, &trigger->offset));
  if (trigger->symbol.empty()) return At(place.column, "missing the function before the offset");
  if (trigger->offset && trigger->kind == TriggerKind::kUretprobe) return At(place.column, "uretprobe takes a function without an offset");
  return OkStatus();
}

Status Usdt(const Words& words, Trigger* trigger) {
  if (words[1].text.empty()) return Missing(words, 1, "the program or library; example: usdt:/usr/bin/python3:function__entry");
  if (words[2].text.empty()) return Missing(words, 2, "the probe; example: usdt:PATH:PROVIDER:NAME");
  trigger->path = words[1].text;
  trigger->name = words[2].text;
  if (words.size() > 3) {
    trigger->category = words[2].text;
    trigger->name = words[3].text;
    if (trigger->name.empty()) return Missing(words, 3, "the probe's name");
  }
  return NoMore(words, 4);
}

Status Syscall(const Words& words, Trigger* trigger) {
  if (words[1].text.empty()) return Missing(words, 1, "the system call; example: syscall:openat");
  trigger->name = words[1].text;
  if (words.size() > 2) {
    if (words[2].text == "enter") {
      trigger->kind = TriggerKind::kSyscallEnter;
    } else if (words[2].text != "exit") {
      return At(words[2].column, "'" + EscapeForTerminal(words[2].text) + "' is neither enter nor exit");
    }
  }
  return NoMore(words, 3);
}

// Signals whose default is fatal because something is wrong: for them `fatal` is what is meant.
constexpr int kFaults[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};

Status Signal(const Words& words, Trigger* trigger) {
  Part part = words[1];
  if (part.text.empty()) return Missing(words, 1, "the signal; example: signal:SEGV");
  size_t column = part.column;
  bool faults_only = true;
  for (std::string_view name : Split(part.text, ',')) {
    std::string upper(name);
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    int number = SignalByName(upper);
    if (number == 0) {
      std::vector<std::string> names;
      for (int i = 1; i < 32; ++i) names.push_back(SignalName(i));
      if (ParseUint(name).ok()) return At(column, "unknown signal '" + EscapeForTerminal(name) + "': they are 1 to 64");
      const std::string full = upper.starts_with("SIG") ? upper : "SIG" + upper;
      auto near = NearestNames(full, names, 1);
      // SEGFAULT, ABORT, TERMINATE: longer than what they mean.
      const auto begins = std::find_if(names.begin(), names.end(), [&](const std::string& known) { return full.starts_with(known.substr(0, 6)); });
      if (near.empty() && begins != names.end()) near = {*begins};
      return At(column, "unknown signal '" + EscapeForTerminal(name) + "'" + (near.empty() ? "; kill -l lists them" : "; did you mean " + near[0] + "?"));
    }
    trigger->signals |= uint64_t{1} << (number - 1);
    faults_only = faults_only && std::find(std::begin(kFaults), std::end(kFaults), number) != std::end(kFaults);
    column += name.size() + 1;
  }
  trigger->fatal_only = faults_only;
  if (words.size() > 2) {
    std::string_view mode = words[2].text;
    if (mode == "sent") trigger->kind = TriggerKind::kSignalSent;
    if (mode != "sent" && mode != "all" && mode != "fatal") return At(words[2].column, "'" + EscapeForTerminal(mode) + "' is none of fatal, all, sent");
    trigger->fatal_only = mode == "fatal";
  }
  return NoMore(words, 3);
}

Status Bare(const Words& words, Trigger*) { return NoMore(words, 1); }

struct Mode {
  const char* name;
  uint32_t bits;
};
constexpr Mode kModes[] = {{"w", HW_BREAKPOINT_W}, {"rw", HW_BREAKPOINT_RW}, {"wr", HW_BREAKPOINT_RW}, {"x", HW_BREAKPOINT_X}};

Status Watch(const Words& words, Trigger* trigger) {
  if (words[1].text.empty()) return Missing(words, 1, "the address; example: watch:0x404040:8:w");
  auto address = ParseUint(words[1].text);
  if (address.ok()) {
    trigger->address = *address;
  } else {
    trigger->watch_symbol = words[1].text;
  }
  if (words[2].text.empty()) return Missing(words, 2, "the length: 1, 2, 4 or 8 bytes; example: watch:0x404040:8:w");
  auto length = ParseUint(words[2].text);
  if (!length.ok() || (*length != 1 && *length != 2 && *length != 4 && *length != 8)) return At(words[2].column, "the length is 1, 2, 4 or 8 bytes");
  trigger->length = *length;
  if (words[3].text.empty()) return Missing(words, 3, "the mode: w, rw or x");
  for (const Mode& mode : kModes) {
    if (words[3].text == mode.name) trigger->watch_mode = mode.bits;
  }
  if (trigger->watch_mode == 0) {
    bool known = words[3].text.find_first_not_of("rwx") == std::string_view::npos;
    return At(words[3].column, known ? "the CPU has no breakpoint of mode '" + std::string(words[3].text) + "': it has w, rw and x (reads alone cannot be watched)"
                                     : "'" + EscapeForTerminal(words[3].text) + "' is none of w, rw, x");
  }
  if (trigger->watch_mode == HW_BREAKPOINT_X && *length != 8) return At(words[2].column, "mode x takes the length 8");
  if (trigger->watch_mode != HW_BREAKPOINT_X && address.ok() && *address % *length) return At(words[1].column, "the address must be a multiple of the length");
  return NoMore(words, 4);
}

Status Sample(const Words& words, Trigger* trigger) {
  bool profile = words[0].text == "profile" || words[0].text == "p";
  Part value = profile && words.size() > 2 ? words[2] : words[1];
  std::string_view unit = profile && words.size() > 2 ? words[1].text : "hz";
  if (value.text.empty()) return At(value.column, "missing the frequency in Hz; example: sample:99");
  auto number = ParseUint(value.text);
  if (!number.ok() || *number == 0) return At(value.column, "'" + EscapeForTerminal(value.text) + "' is no frequency");
  constexpr uint64_t kSecond = 1'000'000'000, kMostHz = 100'000;
  if (unit == "hz") trigger->period_ns = *number <= kMostHz ? kSecond / *number : 0;
  else if (unit == "s") trigger->period_ns = *number * kSecond;
  else if (unit == "ms") trigger->period_ns = *number * 1'000'000;
  else if (unit == "us") trigger->period_ns = *number * 1'000;
  else return At(words[1].column, "'" + EscapeForTerminal(unit) + "' is none of hz, s, ms, us");
  if (trigger->period_ns < kSecond / kMostHz) return At(value.column, "the clock samples at most 100,000 times a second");
  return NoMore(words, profile ? 3 : 2);
}

Status Perf(const Words& words, Trigger* trigger) {
  size_t last = words.size() - 1;
  if (words[1].text.empty()) return Missing(words, 1, "the event; example: perf:cache-misses:10000");
  auto period = last >= 2 ? ParseUint(words[last].text) : StatusOr<uint64_t>(uint64_t{1});
  if (last >= 2 && (!period.ok() || *period == 0)) {
    // The last part may be modifiers of the event (cycles:u).
    period = uint64_t{0};
    ++last;
  }
  if (words.size() < 3 || *period == 0) return At(words.end, "missing the period: take the stack at each how manieth event; example: perf:page-faults:100");
  for (size_t i = 1; i < last; ++i) trigger->event += (i > 1 ? ":" : "") + std::string(words[i].text);
  trigger->period = *period;
  return OkStatus();
}

struct Form {
  const char* word;
  TriggerKind kind;
  Parser parse;
};
constexpr Form kForms[] = {
    {"tracepoint", TriggerKind::kTracepoint, Tracepoint},
    {"t", TriggerKind::kTracepoint, Tracepoint},
    {"raw_tracepoint", TriggerKind::kRawTracepoint, RawTracepoint},
    {"rawtracepoint", TriggerKind::kRawTracepoint, RawTracepoint},
    {"raw_tp", TriggerKind::kRawTracepoint, RawTracepoint},
    {"rt", TriggerKind::kRawTracepoint, RawTracepoint},
    {"kprobe", TriggerKind::kKprobe, KernelFunction},
    {"k", TriggerKind::kKprobe, KernelFunction},
    {"kretprobe", TriggerKind::kKretprobe, KernelFunction},
    {"kr", TriggerKind::kKretprobe, KernelFunction},
    {"fentry", TriggerKind::kFentry, KernelFunction},
    {"f", TriggerKind::kFentry, KernelFunction},
    {"kfunc", TriggerKind::kFentry, KernelFunction},
    {"fexit", TriggerKind::kFexit, KernelFunction},
    {"fr", TriggerKind::kFexit, KernelFunction},
    {"kretfunc", TriggerKind::kFexit, KernelFunction},
    {"uprobe", TriggerKind::kUprobe, UserPlace},
    {"u", TriggerKind::kUprobe, UserPlace},
    {"uretprobe", TriggerKind::kUretprobe, UserPlace},
    {"ur", TriggerKind::kUretprobe, UserPlace},
    {"usdt", TriggerKind::kUsdt, Usdt},
    {"U", TriggerKind::kUsdt, Usdt},
    {"syscall", TriggerKind::kSyscallExit, Syscall},
    {"signal", TriggerKind::kSignal, Signal},
    {"exec", TriggerKind::kExec, Bare},
    {"exit", TriggerKind::kExit, Bare},
    {"oom", TriggerKind::kOom, Bare},
    {"watch", TriggerKind::kWatch, Watch},
    {"watchpoint", TriggerKind::kWatch, Watch},
    {"w", TriggerKind::kWatch, Watch},
    {"sample", TriggerKind::kSample, Sample},
    {"profile", TriggerKind::kSample, Sample},
    {"p", TriggerKind::kSample, Sample},
    {"perf", TriggerKind::kPerf, Perf},
    {"hardware", TriggerKind::kPerf, Perf},
    {"h", TriggerKind::kPerf, Perf},
    {"software", TriggerKind::kPerf, Perf},
    {"s", TriggerKind::kPerf, Perf},
    {"manual", TriggerKind::kManual, Bare},
};

constexpr std::array<const char*, 31> kSignalNames = {
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
    "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"};

}  // namespace

std::string_view TriggerKindName(TriggerKind kind) {
  constexpr std::string_view kNames[] = {"tracepoint", "raw_tracepoint", "kprobe", "kretprobe", "fentry", "fexit", "uprobe", "uretprobe", "usdt", "syscall:enter", "syscall:exit",
                                         "signal", "signal:sent", "exec", "exit", "oom", "watch", "sample", "perf", "manual"};
  return kNames[static_cast<size_t>(kind)];
}

bool Trigger::glob() const {
  bool kernel = kind == TriggerKind::kKprobe || kind == TriggerKind::kKretprobe;
  const std::string& text = kernel ? name : symbol;
  return text.find_first_of("*?") != std::string::npos;
}

Side Trigger::side() const {
  switch (kind) {
    case TriggerKind::kTracepoint: case TriggerKind::kRawTracepoint: case TriggerKind::kKprobe: case TriggerKind::kKretprobe:
    case TriggerKind::kFentry: case TriggerKind::kFexit: case TriggerKind::kOom:
      return Side::kKernel;
    default:
      return Side::kUser;
  }
}

int SignalByName(std::string_view name) {
  auto number = ParseUint(name);
  if (number.ok()) return *number >= 1 && *number <= 64 ? static_cast<int>(*number) : 0;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (size_t i = 0; i < kSignalNames.size(); ++i) {
    if (name == kSignalNames[i]) return static_cast<int>(i) + 1;
  }
  return 0;
}

std::string SignalName(int number) {
  if (number >= 1 && number <= static_cast<int>(kSignalNames.size())) return std::string("SIG") + kSignalNames[static_cast<size_t>(number) - 1];
  return "signal " + std::to_string(number);
}

std::vector<std::string> TriggerWords() {
  std::vector<std::string> words;
  for (const Form& form : kForms) words.emplace_back(form.word);
  return words;
}

StatusOr<Trigger> ParseTrigger(std::string_view text) {
  constexpr size_t kMostText = 4096;
  if (text.size() > kMostText) return At(kMostText, "the trigger is longer than 4,096 characters");
  Words words(text);
  for (const Form& form : kForms) {
    if (words[0].text != form.word) continue;
    Trigger trigger;
    trigger.kind = form.kind;
    trigger.text = text;
    RETURN_IF_ERROR(form.parse(words, &trigger));
    return trigger;
  }
  std::vector<std::string> known;
  for (const Form& form : kForms) {
    if (std::string_view(form.word).size() > 2) known.emplace_back(form.word);
  }
  std::string near;
  for (const std::string& word : NearestNames(words[0].text, known)) near += (near.empty() ? "" : ", ") + word;
  if (words[0].text == "interval" || words[0].text == "BEGIN" || words[0].text == "END") near = "sample (for times), manual";
  const std::string shown = "unknown kind of trigger '" + EscapeForTerminal(words[0].text) + "'; ";
  if (words.size() == 1 && SyscallByName(words[0].text)) return At(0, shown + "did you mean syscall:" + std::string(words[0].text) + "?");
  if (!near.empty()) return At(0, shown + "nearest: " + near);
  for (const std::string& kind : known) near += (near.empty() ? "" : ", ") + kind;
  return At(0, shown + "there are " + near + "; a tracepoint is written tracepoint:CATEGORY:NAME");
}

size_t TriggerErrorColumn(const Status& status) {
  auto payload = status.GetPayload(kColumnPayload);
  if (!payload) return 0;
  auto column = ParseUint(std::string(*payload));
  return column.ok() ? *column : 0;
}

}  // namespace brink::snap
