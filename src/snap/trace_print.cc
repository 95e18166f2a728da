#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"
#include "snap/print.h"
#include "snap/print_parts.h"
#include "snap/trace.h"

namespace brink::snap {

using nlohmann::ordered_json;

namespace {

// " (inside: pid 1 tid 1)"
std::string Inside(const Trace& trace) {
  const bool same = trace.inner_pid == 0 || trace.inner_pid == static_cast<int32_t>(trace.head.tgid);
  return same ? "" : absl::StrFormat(" (inside: pid %d tid %d)", trace.inner_pid, trace.inner_tid);
}

}  // namespace

std::string TraceText(const Trace& trace, const PrintOptions& options) {
  const Painter paint(options.colour);
  const std::string exit = trace.span->exit.empty() ? "its return" : trace.span->exit;
  std::string out = paint.Bold(WallTime(trace.head.time_ns, options, false) + "  " + EscapeForTerminal(trace.span->entry) + " .. " + EscapeForTerminal(exit)) +
                    absl::StrFormat("  %s pid %d tid %d%s cpu %d\n", EscapeForTerminal(trace.comm), trace.head.tgid, trace.head.tid, Inside(trace), trace.head.cpu);
  out += "  branches that followed, in their order (" + trace.source + ")\n";
  std::string function = "\n";  // no function's name
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& step = trace.steps[i];
    if (step.from.symbol != function) {
      function = step.from.symbol;
      out += "    " + paint.Bold(function.empty() ? "?" : EscapeForTerminal(function)) + paint.Dim(" (" + EscapeForTerminal(step.from.object) + ")") + "\n";
    }
    const std::string target = step.to.symbol == step.from.symbol && !step.to.symbol.empty() ? absl::StrFormat("+0x%x", step.to.offset) : PlaceText(step.to);
    out += absl::StrFormat("      #%-3d +0x%-6x %-9s -> %s", i, step.from.offset, KindName(step.kind), target);
    if (!step.from.line.empty()) out += paint.Dim("  " + EscapeForTerminal(step.from.line));
    out += "\n";
  }
  if (trace.reached) out += absl::StrFormat("    reached %s after %d branches\n", EscapeForTerminal(exit), trace.steps.size());
  else out += paint.Red(absl::StrFormat("    not followed further: %s", EscapeForTerminal(trace.stop))) + absl::StrFormat(" at 0x%x\n", trace.end);
  return out + "\n";
}

std::string TraceJson(const Trace& trace, const PrintOptions& options) {
  ordered_json json = {{"schema", "brink.snap.trace.v1"}, {"time", WallTime(trace.head.time_ns, options, true)}, {"monotonic_ns", trace.head.time_ns},
                       {"entry", JsonText(trace.span->entry)}, {"exit", trace.span->exit.empty() ? ordered_json(nullptr) : JsonText(trace.span->exit)},
                       {"comm", JsonText(trace.comm)}, {"pid", trace.head.tgid}, {"tid", trace.head.tid}, {"inner_pid", trace.inner_pid}, {"inner_tid", trace.inner_tid}, {"cpu", trace.head.cpu},
                       {"source", trace.source}, {"direction", "future"}, {"place", AddressJson(trace.entry)}, {"reached", trace.reached}};
  json["stop"] = trace.reached ? ordered_json(nullptr) : ordered_json(trace.stop);
  ordered_json branches = ordered_json::array();
  for (const TraceStep& step : trace.steps) branches.push_back({{"from", AddressJson(step.from)}, {"to", AddressJson(step.to)}, {"kind", KindName(step.kind)}});
  json["branches"] = branches;
  return AsciiJson(json);
}

}  // namespace brink::snap
