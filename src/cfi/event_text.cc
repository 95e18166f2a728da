#include "cfi/event_text.h"

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cfi/side_text.h"

namespace brink::cfi {
namespace {

using Json = nlohmann::ordered_json;

// Why it is judged as it is, and where to look, by policy.
struct Words {
  const char* id;
  const char* rule;
  const char* excuses;
  const char* look;
};
constexpr Words kWords[] = {
    {"P1", "A return must land behind a call instruction: that is where its caller waits.",
     "a signal's restorer (X1), landing pads reached by an unwinder (X4), context switches (X5), lazy binding (X6), Go's stacks (X8), thunks and uprobes (X9)",
     "who wrote the return address: the frames of the function that returned, and what was copied into them"},
    {"P2", "A return must go back to the call that is open in this window; below the window's start, to a place whose call is of the function that returns.",
     "what excuses P1; a function that ends in a jump returns in its caller's name", "the same stack slot; two such returns in one window are a chain, not an accident"},
    {"P3", "An indirect call must go to the entry of a function, and to one whose address a pointer can hold.",
     "PLT slots, code of a JIT (X7), Go (X8); functions without symbols stay unknown", "the object that holds the function pointer"},
    {"P4", "An indirect jump must stay in its function (a switch) or go to an entry (a tail call); a PLT slot must lead to the symbol of its name.",
     "longjmp to behind a call (X3), unwinders to landing pads (X4), context switches (X5), lazy binding (X6), Go (X8)", "the jump table, the jmp_buf, or the slot in the GOT"},
    {"P5", "A target must be the beginning of an instruction of the function's own code.", "data between instructions makes what follows unknown",
     "the bytes at the target: read from there they are other instructions than the compiler wrote"},
    {"P6", "Between two neighbouring records no unconditional transfer may lie.", "records that were lost, or code that was changed; alone it proves little", "losses in the summary"},
    {"P7", "A direct branch must go where the file's instruction says.", "uprobes and debuggers patch code; a JIT that reuses a file's page", "whether the mapped code is the file's"},
    {"P8", "Targets must be code of a file, the vDSO or a JIT that is known.", "a JIT's own map or --jit allow (X7), the uprobes page (X9)", "who made the memory executable: mmap and mprotect before this"},
    {"P9", "Long chains of indirect transfers with few instructions between are what gadget chains look like.", "interpreters and tiny virtual functions: score only", "other violations in the same window"},
    {"P10", "A thread's stack pointer stays in its stack, its signal stack, or where this thread has been before without a violation.",
     "coroutines and other stacks of one's own, once they were seen; Go", "what was copied into the memory that the stack pointer is in: a pivot's chain lies there"},
    {"P11", "A system call is made by an instruction of a file, at the beginning of an instruction.", "a JIT that is known", "who made the code at the call: mmap and mprotect before this"},
    {"P12", "An indirect edge of a file that was learned was seen while learning.", "another build of the file: learn again", "whether the program did something new, as after a change of its configuration"},
    {"P13", "The way back from a sensitive call was seen while learning.", "another build of the file: learn again", "which input led the program to this call"},
};

// What an alarm of a live run says beside its edge; "" for events of recordings.
template <typename Text>
std::string LiveWords(const Json& json, const Text& text) {
  auto part = [&](const char* key) -> Json { return json.contains(key) && json[key].is_object() ? json[key] : Json::object(); };
  const Json hook = part("hook"), window = part("window"), action = part("action");
  std::string out;
  const std::string point = text(hook, "point"), call = text(hook, "syscall"), assumption = text(window, "assumption");
  if (!point.empty()) absl::StrAppendFormat(&out, "  seen at %s%s\n", point, call.empty() ? "" : " of " + call);
  if (text(window, "direction") == "future") out += "  the code that the thread was about to execute: it had not happened yet\n";
  if (!assumption.empty()) absl::StrAppendFormat(&out, "  walked on as if %s; what depends on more was not walked\n", assumption);
  if (text(json, "confidence") == "tainted") out += "  records were lost in this run: a mapping may be missing\n";
  if (!text(action, "taken").empty()) absl::StrAppendFormat(&out, "  action %s: %s\n", text(action, "taken"), text(action, "result"));
  if (!text(json, "suppressed_by").empty()) absl::StrAppendFormat(&out, "  suppressed by a policy file: %s\n", text(json, "suppressed_by"));
  return out;
}

}  // namespace

std::string EventJson(const Event& e) {
  Json branches = Json::array();
  for (const BranchEntry& b : e.branches) branches.push_back({{"from", Hex(b.from)}, {"to", Hex(b.to)}, {"kind", KindName(b.kind())}});
  return Print({{"schema", "brink.cfi.event.v1"},
                {"monotonic_ns", e.time_ns},
                {"policy", PolicyName(e.violation.policy)},
                {"rule", PolicyText(e.violation.policy)},
                {"severity", SeverityName(e.violation.severity)},
                {"message", e.violation.reason},
                {"count", e.count},
                {"process", {{"pid", e.pid}, {"tid", e.tid}, {"comm", OrNull(e.comm)}}},
                {"window", {{"len", e.window_len}, {"contiguous", e.contiguous}}},
                {"violation", {{"index", e.violation.index}, {"kind", KindName(e.violation.kind)}, {"from", SideJson(e.from)}, {"to", SideJson(e.to)}}},
                {"branches", branches}});
}

std::string EventText(const Event& e, size_t number) {
  std::string out = absl::StrFormat("%d. %s %s: %s\n   %s (%d/%d)%s, window of %d records%s\n", number, std::string(SeverityName(e.violation.severity)), std::string(PolicyName(e.violation.policy)),
                                    e.violation.reason, EscapeForTerminal(e.comm.empty() ? "?" : e.comm), e.pid, e.tid, e.count > 1 ? absl::StrFormat(", %d times", e.count) : "", e.window_len,
                                    e.contiguous ? "" : ", filtered");
  constexpr size_t kAround = 2;
  const size_t broken = e.violation.index, oldest = std::min(broken + kAround, e.branches.empty() ? 0 : e.branches.size() - 1), newest = broken > kAround ? broken - kAround : 0;
  for (size_t i = oldest + 1; i-- > newest && i < e.branches.size();) {
    const BranchEntry& b = e.branches[i];
    if (i == broken) {
      absl::StrAppendFormat(&out, "   >> %-8s %s\n   >>       -X-> %s\n", std::string(KindName(e.violation.kind)), EscapeForTerminal(Where(e.from)), EscapeForTerminal(Where(e.to)));
    } else {
      absl::StrAppendFormat(&out, "      %-8s %#x -> %#x\n", std::string(KindName(b.kind())), b.from, b.to);
    }
  }
  return out;
}

std::string SummaryJson(const ReplayReport& r) {
  Json policies = Json::object(), exceptions = Json::object(), missing = Json::object();
  for (size_t i = 0; i < kPolicyCount; ++i) {
    const PolicyCounts& c = r.totals.policies[i];
    Json unknown = Json::object();
    for (size_t k = 0; k < kReasonCount; ++k) {
      if (c.unknown[k]) unknown[std::string(ReasonName(static_cast<Reason>(k)))] = c.unknown[k];
    }
    policies[std::string(PolicyName(static_cast<Policy>(i)))] = {{"held", c.held}, {"violated", c.violated}, {"excepted", c.excepted}, {"unknown", unknown}};
  }
  for (size_t i = 0; i < kExceptionCount; ++i) exceptions[std::string(ExceptionName(static_cast<Exception>(i)))] = r.totals.exceptions[i];
  for (const auto& [path, count] : r.missing) missing[path] = count;
  return Print({{"schema", "brink.cfi.summary.v1"}, {"samples", r.samples}, {"windows", r.windows}, {"edges", r.totals.edges}, {"checked", r.totals.checked}, {"events", r.events.size()},
                {"untold", r.untold}, {"files", r.files}, {"files_missing", missing}, {"lost", r.lost}, {"damaged", r.damaged}, {"policies", policies}, {"exceptions", exceptions}});
}

std::string SummaryText(const ReplayReport& r) {
  std::string out = absl::StrFormat("%d windows, %d edges of user code, %d checked (%.1f %%); facts of %d files, %d files missing%s\n", r.windows, r.totals.edges, r.totals.checked,
                                    r.totals.edges ? 100.0 * static_cast<double>(r.totals.checked) / static_cast<double>(r.totals.edges) : 0.0, r.files, r.files_missing,
                                    r.lost ? absl::StrFormat("; %d records lost: verdicts may lack a mapping", r.lost) : "");
  absl::StrAppendFormat(&out, "%-4s %10s %10s %10s %10s  %s\n", "", "held", "violated", "excepted", "unknown", "rule");
  for (size_t i = 0; i < kPolicyCount; ++i) {
    const PolicyCounts& c = r.totals.policies[i];
    absl::StrAppendFormat(&out, "%-4s %10d %10d %10d %10d  %s\n", std::string(PolicyName(static_cast<Policy>(i))), c.held, c.violated, c.excepted, c.unknown_total(), std::string(PolicyText(static_cast<Policy>(i))));
  }
  for (size_t i = 0; i < kExceptionCount; ++i) {
    if (r.totals.exceptions[i]) absl::StrAppendFormat(&out, "%s: %d\n", std::string(ExceptionName(static_cast<Exception>(i))), r.totals.exceptions[i]);
  }
  for (const auto& [path, count] : r.missing) absl::StrAppendFormat(&out, "no facts: %s (%d)\n", EscapeForTerminal(path), count);
  return out;
}

StatusOr<std::string> Explain(std::string_view line) {
  Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  auto text = [](const Json& object, const char* key) -> std::string {
    if (!object.is_object()) return "";
    auto it = object.find(key);
    return it != object.end() && it->is_string() ? EscapeForTerminal(it->get<std::string>()) : "";
  };
  const std::string schema = text(json, "schema");
  if (schema != "brink.cfi.event.v1" && schema != "brink.cfi.alarm.v1") return InvalidArgument("not an event of brink cfi (one line of brink cfi run --sink json or of brink cfi replay --json)");
  const std::string policy = text(json, "policy");
  const Words* words = nullptr;
  for (const Words& w : kWords) {
    if (policy == w.id) words = &w;
  }
  if (!words) return InvalidArgument("unknown policy '" + policy + "'");
  const Json violation = json.contains("violation") ? json["violation"] : Json(), empty;
  auto side = [&](const char* key) {
    const Json& s = violation.is_object() && violation.contains(key) ? violation[key] : empty;
    std::string module = text(s, "module"), symbol = text(s, "symbol"), bytes = text(s, "bytes");
    std::string out = symbol.empty() ? text(s, "address") : symbol + " (" + text(s, "address") + ")";
    if (!module.empty()) out += " of " + module;
    return out + (bytes.empty() ? "" : ", bytes " + bytes);
  };
  const std::string severity = text(json, "severity");
  std::string out = absl::StrFormat("%s, severity %s: %s\n\nWhat happened\n  %s from %s\n  to %s\n\nThe rule\n  %s\n\nWhat would have excused it, and did not\n  %s\n\n", policy, severity, text(json, "message"),
                                    violation.is_object() ? text(violation, "kind") : "branch", side("from"), side("to"), words->rule, words->excuses);
  const Json& window = json.contains("window") ? json["window"] : empty;
  if (window.is_object() && window.contains("len") && window["len"].is_number_unsigned()) {
    absl::StrAppendFormat(&out, "How sure\n  judged from %d records%s; high: no legal program is known to do this; medium: one broken rule; low: a hint\n", window["len"].get<uint64_t>(),
                          window.value("contiguous", true) ? "" : " of a filtered stack");
    out += LiveWords(json, text) + "\n";
  }
  return out + "Where to look\n  " + words->look + "\n";
}

}  // namespace brink::cfi
