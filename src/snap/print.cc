#include "snap/print.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"
#include "base/units.h"
#include "snap/print_parts.h"
#include "snap/syscalls.h"

namespace brink::snap {

using nlohmann::ordered_json;

namespace {

ordered_json Hex(uint64_t value) { return absl::StrFormat("0x%x", value); }

ordered_json TextOrNull(std::string_view text) { return text.empty() ? ordered_json(nullptr) : JsonText(text); }

bool IsError(int64_t value) { return value < 0 && value >= -4095; }

}  // namespace

std::string WallTime(uint64_t monotonic_ns, const PrintOptions& options, bool date) {
  uint64_t ns = monotonic_ns + options.realtime_offset_ns;
  time_t seconds = static_cast<time_t>(ns / 1'000'000'000);
  struct tm fields;
  gmtime_r(&seconds, &fields);
  char text[64];
  strftime(text, sizeof(text), date ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &fields);
  return date ? absl::StrFormat("%s.%09dZ", text, ns % 1'000'000'000) : absl::StrFormat("%s.%06d", text, ns % 1'000'000'000 / 1000);
}

std::string PlaceText(const NamedAddress& at) {
  std::string text = at.symbol.empty() ? absl::StrFormat("0x%x", at.address) : at.symbol + (at.offset ? absl::StrFormat("+0x%x", at.offset) : "");
  return EscapeForTerminal(text);
}

std::string WithObject(const NamedAddress& at, const Painter& paint) {
  std::string text = PlaceText(at);
  for (const std::string& inlined : at.inlined) text = EscapeForTerminal(inlined) + " (inlined) < " + text;
  if (!at.object.empty() && !at.kernel) text += paint.Dim(" (" + EscapeForTerminal(at.object) + ")");
  if (!at.line.empty()) text += paint.Dim(" " + EscapeForTerminal(at.line));
  if (at.guessed) text += paint.Dim(" [guessed: found on the stack]");
  return text;
}

std::string ResultText(int64_t value) {
  if (IsError(value)) return "-" + ErrnoName(static_cast<int>(-value)) + " (" + std::to_string(value) + ")";
  return value >= -4096 && value < 65536 ? std::to_string(value) : absl::StrFormat("0x%x", static_cast<uint64_t>(value));
}

ordered_json JsonText(std::string_view text) {
  // What is no UTF-8 is replaced, so that the line stays JSON.
  return ordered_json::parse(AsciiJson(ordered_json(std::string(text))), nullptr, false);
}

ordered_json AddressJson(const NamedAddress& at) {
  ordered_json json = {{"address", Hex(at.address)}, {"symbol", TextOrNull(at.symbol)}, {"offset", at.symbol.empty() ? ordered_json(nullptr) : ordered_json(at.offset)}, {"object", TextOrNull(at.object)}};
  if (!at.line.empty()) json["line"] = JsonText(at.line);
  if (at.guessed) json["guessed"] = true;
  return json;
}

namespace {

std::string ShortName(const std::string& name) { return name.starts_with("args.") ? name.substr(5) : name; }

std::string ValueText(const Value& value, uint64_t raw) {
  if (value.load.base == BRINK_SNAP_DURATION) return FormatDuration(raw);
  if (value.load.is_signed) return std::to_string(static_cast<int64_t>(raw));
  return raw < 4096 ? std::to_string(raw) : absl::StrFormat("0x%x", raw);
}

std::string_view StringOf(const Capture& capture, size_t i) {
  const char* text = capture.context.string[i];
  return {text, strnlen(text, BRINK_SNAP_STRING_LEN)};
}

// flags=0x8000, filename="/etc/shadow"
std::string ValuesText(const Capture& capture) {
  std::string text;
  const std::vector<Value>& values = capture.trigger->values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == "ret" || values[i].name == "ctx.duration") continue;
    const std::string name = ShortName(values[i].name);
    std::string shown = capture.context.known >> i & 1 ? ValueText(values[i], capture.context.value[i]) : "unknown";
    for (size_t j = 0; j < capture.trigger->strings.size(); ++j) {
      if (capture.trigger->strings[j] == name && !StringOf(capture, j).empty()) shown = "\"" + EscapeForTerminal(StringOf(capture, j)) + "\"";
    }
    text += (text.empty() ? "" : ", ") + EscapeForTerminal(name) + "=" + shown;
  }
  return text;
}

std::string SignalText(const Capture& capture) {
  const brink_snap& context = capture.context;
  std::string text = SignalName(context.signal);
  if (!(context.flags & BRINK_SNAP_HAS_SIGINFO)) return text + " (no siginfo)";
  text += " " + SignalCodeName(context.signal, context.signal_code);
  if (context.signal_code <= 0) return text + absl::StrFormat(" from pid %d uid %d", static_cast<uint32_t>(context.signal_addr), static_cast<uint32_t>(context.signal_addr >> 32));
  return text + absl::StrFormat(" at 0x%x", context.signal_addr);
}

std::string HistoryText(const brink_snap_event& event, uint64_t now) {
  std::string what;
  switch (event.type) {
    case BRINK_SNAP_EV_SWITCH: what = absl::StrFormat("switch %d -> %d", event.a, event.b); break;
    case BRINK_SNAP_EV_SYS_ENTER: what = absl::StrFormat("%s(0x%x, ...)", SyscallName(static_cast<int>(event.a)), event.b); break;
    case BRINK_SNAP_EV_SYS_EXIT: what = SyscallName(static_cast<int>(event.a)) + " = " + ResultText(static_cast<int64_t>(event.b)); break;
    case BRINK_SNAP_EV_IRQ: what = absl::StrFormat("irq %d", event.a); break;
    default: what = "?"; break;
  }
  return absl::StrFormat("%12s  tid %-8d %s", "-" + FormatDuration(now - std::min<uint64_t>(now, event.time_ns)), event.tid, what);
}

void AppendChain(const Capture& capture, const Painter& paint, std::string* out) {
  if (capture.kernel_chain.empty() && capture.user_chain.empty()) return;
  *out += "  chain (innermost first)\n";
  if (capture.context.flags & BRINK_SNAP_STACK_GAP) *out += paint.Dim("    (the stack pointer's page is unreadable: the stack is read from the next page up)") + "\n";
  for (const NamedAddress& at : capture.kernel_chain) *out += "    " + paint.Cyan("k ") + WithObject(at, paint) + "\n";
  for (const NamedAddress& at : capture.user_chain) *out += "    u " + WithObject(at, paint) + "\n";
}

// Not this process's: counted, not named.
void AppendForeign(size_t count, size_t last, const Painter& paint, std::string* out) {
  *out += paint.Dim(absl::StrFormat("      #%d..%d of another process that ran on this CPU meanwhile: they come from addresses that this one has not mapped", last + 1 - count, last)) + "\n";
}

void AppendBranches(const Capture& capture, const PrintOptions& options, const Painter& paint, std::string* out) {
  if (capture.branches.empty()) {
    if (!capture.no_branches.empty()) *out += paint.Dim("  no branches: " + EscapeForTerminal(capture.no_branches)) + "\n";
    return;
  }
  *out += capture.future ? "  branches that follow, not those that led here (walk: user code, in the order of execution)\n" : "  branches that led here (newest first)\n";
  const size_t shown = std::min<size_t>(capture.branches.size(), options.most_branches);
  std::string function;
  bool heading = true;
  size_t foreign = 0;
  for (size_t i = 0; i < shown; ++i) {
    const NamedBranch& branch = capture.branches[capture.future ? capture.branches.size() - 1 - i : i];
    if (capture.left_at == i) *out += paint.Dim("      (the thread left the CPU here and others ran: what is older was taken then)") + "\n";
    if (branch.foreign) {
      ++foreign;
      heading = true;
      if (i + 1 == shown || !capture.branches[i + 1].foreign) AppendForeign(std::exchange(foreign, 0), i, paint, out);
      continue;
    }
    // A heading for each function that the branches run through.
    if (std::exchange(heading, false) || branch.from.symbol != function) {
      function = branch.from.symbol;
      *out += "    " + paint.Bold(function.empty() ? "?" : EscapeForTerminal(function)) + (branch.from.kernel ? "" : paint.Dim(" (" + EscapeForTerminal(branch.from.object) + ")")) + "\n";
    }
    std::string target = branch.to.symbol == branch.from.symbol && !branch.to.symbol.empty() ? absl::StrFormat("+0x%x", branch.to.offset) : PlaceText(branch.to);
    *out += absl::StrFormat("      #%-3d +0x%-6x %-9s -> %s%s", i, branch.from.offset, KindName(branch.kind), target, branch.prediction == Prediction::kMispredicted ? paint.Red(" mispredicted") : "");
    if (branch.cycles) *out += absl::StrFormat(" %d cycles", branch.cycles);
    if (!branch.from.line.empty()) *out += paint.Dim("  " + EscapeForTerminal(branch.from.line));
    *out += "\n";
  }
  if (capture.branches.size() > options.most_branches) *out += absl::StrFormat("      ... %d more\n", capture.branches.size() - options.most_branches);
  if (capture.future) *out += paint.Dim("      then: " + capture.stop) + "\n";
}

void AppendRegisters(const Capture& capture, std::string* out) {
  if (!(capture.context.flags & BRINK_SNAP_HAS_REGS)) return;
  auto names = RegisterNames();
  for (size_t i = 0; i < names.size(); ++i) {
    *out += absl::StrFormat("%s%8s %016x", i % 4 ? "" : "  ", names[i], capture.context.regs[i]);
    if (i % 4 == 3 || i + 1 == names.size()) *out += "\n";
  }
}


ordered_json ContainerJson(const ContainerInfo& info, uint64_t id) {
  ordered_json json = {{"cgroup_id", id ? Hex(id) : ordered_json(nullptr)}, {"path", TextOrNull(info.path)}, {"label", TextOrNull(info.Label())},
                       {"id", TextOrNull(info.identity.container_id)}, {"runtime", TextOrNull(RuntimeName(info.is_container() ? info.store.runtime : info.identity.runtime))},
                       {"name", TextOrNull(info.store.name)}, {"image", TextOrNull(info.store.image)}, {"pod", TextOrNull(info.Pod())}};
  if (!info.miss.empty()) json["miss"] = JsonText(info.miss);
  return json;
}

ordered_json HistoryJson(const std::vector<brink_snap_event>& events) {
  constexpr const char* kTypes[] = {"none", "switch", "sys_enter", "sys_exit", "irq"};
  ordered_json list = ordered_json::array();
  for (const brink_snap_event& event : events) {
    list.push_back({{"monotonic_ns", event.time_ns}, {"tid", event.tid}, {"type", kTypes[event.type < std::size(kTypes) ? event.type : 0]}, {"a", static_cast<int64_t>(event.a)}, {"b", static_cast<int64_t>(event.b)}});
  }
  return list;
}

}  // namespace

std::string TaskText(const Capture& capture) {
  const brink_sample& head = capture.head;
  const brink_snap& context = capture.context;
  std::string text = absl::StrFormat("%s pid %d tid %d", EscapeForTerminal(capture.comm), head.tgid, head.tid);
  if (context.inner_tgid && context.inner_tgid != head.tgid) text += absl::StrFormat(" (inside: pid %d tid %d)", context.inner_tgid, context.inner_tid);
  text += absl::StrFormat(" cpu %d", head.cpu);
  if (std::string label = capture.container.Label(); !label.empty()) text += " [" + EscapeForTerminal(label) + (capture.container.miss.empty() || capture.container.miss.starts_with("only") ? "" : ": " + EscapeForTerminal(capture.container.miss)) + "]";
  return text;
}

// What was called, or passed: at a return the place is where it returns to, at a tracepoint the function that the point stands in.
std::string CalledText(const Capture& capture) {
  if (capture.context.flags & BRINK_SNAP_HAS_SYSCALL) return SyscallName(static_cast<int>(capture.context.syscall));
  const Trigger& trigger = capture.trigger->trigger;
  switch (trigger.kind) {
    case TriggerKind::kTracepoint: case TriggerKind::kRawTracepoint: return EscapeForTerminal(trigger.name);
    case TriggerKind::kKretprobe: case TriggerKind::kUretprobe:
      if (const std::string& name = trigger.kind == TriggerKind::kKretprobe ? trigger.name : trigger.symbol; !name.empty() && !trigger.glob()) return EscapeForTerminal(name);
      return "return to " + PlaceText(capture.place);
    default: return PlaceText(capture.place);
  }
}

std::string CallText(const Capture& capture) { return CalledText(capture) + "(" + ValuesText(capture) + ")"; }

std::string CaptureText(const Capture& capture, const PrintOptions& options) {
  const Painter paint(options.colour);
  const brink_snap& context = capture.context;
  const brink_sample& head = capture.head;
  std::string out = paint.Bold(WallTime(head.time_ns, options, false) + "  " + EscapeForTerminal(capture.trigger->trigger.text)) + "  " + TaskText(capture);
  out += "\n";
  if (context.flags & BRINK_SNAP_HAS_SIGNAL) out += "  " + paint.Red(SignalText(capture)) + " in " + WithObject(capture.place, paint) + "\n";
  if (!(context.flags & BRINK_SNAP_HAS_SIGNAL)) {
    out += "  " + CallText(capture);
    if (context.flags & BRINK_SNAP_HAS_RET) out += " = " + (IsError(context.ret) ? paint.Red(ResultText(context.ret)) : ResultText(context.ret));
    if (context.flags & BRINK_SNAP_HAS_DURATION) out += "  " + FormatDuration(context.duration_ns);
    const TriggerKind kind = capture.trigger->trigger.kind;
    const bool back = kind == TriggerKind::kUretprobe || kind == TriggerKind::kKretprobe;
    if (!capture.place.line.empty()) out += paint.Dim((back ? "  back at " : "  ") + EscapeForTerminal(capture.place.line));
    out += "\n";
  }
  AppendChain(capture, paint, &out);
  AppendBranches(capture, options, paint, &out);
  if (options.registers || (context.flags & BRINK_SNAP_HAS_SIGNAL)) AppendRegisters(capture, &out);
  if (!capture.task_history.empty()) {
    out += "  before, this thread\n";
    for (const brink_snap_event& event : capture.task_history) out += HistoryText(event, head.time_ns) + "\n";
  }
  if (!capture.cpu_history.empty()) {
    out += "  before, this CPU\n";
    for (const brink_snap_event& event : capture.cpu_history) out += HistoryText(event, head.time_ns) + "\n";
  }
  return out + "\n";
}

std::string CaptureJson(const Capture& capture, const PrintOptions& options) {
  const brink_snap& context = capture.context;
  const brink_sample& head = capture.head;
  ordered_json json = {{"schema", "brink.snap.v1"}, {"time", WallTime(head.time_ns, options, true)}, {"monotonic_ns", head.time_ns},
                       {"trigger", JsonText(capture.trigger->trigger.text)}, {"kind", TriggerKindName(capture.trigger->trigger.kind)}, {"hit", context.hit},
                       {"comm", JsonText(capture.comm)}, {"pid", head.tgid}, {"tid", head.tid}, {"uid", context.uid}, {"cpu", head.cpu},
                       {"inner_pid", context.inner_tgid ? ordered_json(context.inner_tgid) : ordered_json(nullptr)},
                       {"inner_tid", context.inner_tid ? ordered_json(context.inner_tid) : ordered_json(nullptr)},
                       {"pidns", context.pidns ? ordered_json(context.pidns) : ordered_json(nullptr)},
                       {"container", ContainerJson(capture.container, context.container_id)}, {"place", AddressJson(capture.place)}};
  json["syscall"] = context.flags & BRINK_SNAP_HAS_SYSCALL ? ordered_json(SyscallName(static_cast<int>(context.syscall))) : ordered_json(nullptr);
  json["ret"] = context.flags & BRINK_SNAP_HAS_RET ? ordered_json(context.ret) : ordered_json(nullptr);
  json["errno"] = (context.flags & BRINK_SNAP_HAS_RET) && IsError(context.ret) ? ordered_json(ErrnoName(static_cast<int>(-context.ret))) : ordered_json(nullptr);
  json["duration_ns"] = context.flags & BRINK_SNAP_HAS_DURATION ? ordered_json(context.duration_ns) : ordered_json(nullptr);
  if (context.flags & BRINK_SNAP_HAS_SIGNAL) {
    const bool info = context.flags & BRINK_SNAP_HAS_SIGINFO;
    json["signal"] = {{"name", SignalName(context.signal)}, {"code", info ? ordered_json(SignalCodeName(context.signal, context.signal_code)) : ordered_json(nullptr)},
                      {"address", info && context.signal_code > 0 ? Hex(context.signal_addr) : ordered_json(nullptr)},
                      {"sender_pid", info && context.signal_code <= 0 ? ordered_json(static_cast<uint32_t>(context.signal_addr)) : ordered_json(nullptr)}};
  }
  ordered_json args = ordered_json::object();
  for (size_t i = 0; i < capture.trigger->values.size(); ++i) {
    const Value& value = capture.trigger->values[i];
    if (value.name == "ret" || value.name == "ctx.duration") continue;
    ordered_json shown = nullptr;
    if (context.known >> i & 1) shown = value.load.is_signed ? ordered_json(static_cast<int64_t>(context.value[i])) : Hex(context.value[i]);
    args[ShortName(value.name)] = shown;
  }
  for (size_t i = 0; i < capture.trigger->strings.size(); ++i) args[capture.trigger->strings[i]] = TextOrNull(StringOf(capture, i));
  json["args"] = args;
  ordered_json chain = ordered_json::array();
  for (const NamedAddress& at : capture.kernel_chain) chain.push_back(AddressJson(at));
  json["kernel_chain"] = chain;
  chain = ordered_json::array();
  for (const NamedAddress& at : capture.user_chain) chain.push_back(AddressJson(at));
  json["user_chain"] = chain;
  ordered_json branches = ordered_json::array();
  for (const NamedBranch& branch : capture.branches) {
    ordered_json mispredicted = branch.prediction == Prediction::kUnknown ? ordered_json(nullptr) : ordered_json(branch.prediction == Prediction::kMispredicted);
    branches.push_back({{"from", AddressJson(branch.from)}, {"to", AddressJson(branch.to)}, {"kind", KindName(branch.kind)}, {"mispredicted", mispredicted},
                        {"cycles", branch.cycles ? ordered_json(branch.cycles) : ordered_json(nullptr)}});
    if (branch.foreign) branches.back()["foreign"] = "unmapped";
  }
  json["direction"] = capture.future ? "future" : "past";
  if (!capture.stop.empty()) json["stop"] = capture.stop;
  json["branches"] = branches;
  json["left_cpu_at"] = capture.left_at ? ordered_json(*capture.left_at) : ordered_json(nullptr);
  json["no_branches"] = branches.empty() ? TextOrNull(capture.no_branches) : ordered_json(nullptr);
  if (context.flags & BRINK_SNAP_HAS_REGS) {
    ordered_json regs = ordered_json::object();
    auto names = RegisterNames();
    for (size_t i = 0; i < names.size(); ++i) regs[names[i]] = Hex(context.regs[i]);
    json["registers"] = regs;
    json["stack_gap"] = (context.flags & BRINK_SNAP_STACK_GAP) != 0;
  }
  json["thread_history"] = HistoryJson(capture.task_history);
  json["cpu_history"] = HistoryJson(capture.cpu_history);
  return AsciiJson(json);
}

}  // namespace brink::snap
