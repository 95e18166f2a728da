#include "monitor/alarm_text.h"

#include <sys/syscall.h>

#include <cstring>
#include <ctime>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/stop.h"
#include "base/strings.h"
#include "cfi/side_text.h"
#include "monitor/registers.h"
#include "snap/syscalls.h"

namespace brink::cfi {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOcsfVersion = "1.1.0";

Json NumberOrNull(int64_t number) { return number < 0 ? Json(nullptr) : Json(number); }

// RFC 3339 with nanoseconds.
std::string Time(uint64_t real_ns) {
  const auto seconds = static_cast<time_t>(real_ns / 1'000'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return absl::StrFormat("%s.%09dZ", text, real_ns % 1'000'000'000);
}

std::string CallName(const Alarm& alarm) { return alarm.context.syscall == ~0u ? "" : snap::SyscallName(static_cast<int>(alarm.context.syscall)); }

std::string Id(const Alarm& alarm, uint64_t real_ns) {
  uint64_t hash = 0xcbf29ce484222325;
  auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (uint64_t value : {real_ns, static_cast<uint64_t>(alarm.tid), alarm.from.address, alarm.to.address, static_cast<uint64_t>(MainPolicy(alarm))}) mix(value);
  return absl::StrFormat("%016x", hash);
}

std::string Message(const Alarm& alarm) { return alarm.violations.empty() ? "" : alarm.violations[0].reason; }

struct Did {
  std::string taken, result;
};
Did ActionOf(const Alarm& alarm) {
  const uint32_t did = alarm.context.action;
  if (did) {
    std::string taken = did & BRINK_CFI_DID_DENY ? "deny" : "";
    if (did & BRINK_CFI_DID_KILL) taken += taken.empty() ? "kill" : "+kill";
    if (did & BRINK_CFI_DID_STOP) taken += taken.empty() ? "stop" : "+stop";
    const char* result = did & BRINK_CFI_DID_DRY ? "dry run" : did & BRINK_CFI_DID_LIMIT ? "limit of the minute" : did & BRINK_CFI_DID_SPARE ? "spared" : did & BRINK_CFI_DID_PROBED ? "held back: a debugger or uprobes move its returns" : "done in the kernel";
    return {taken, result};
  }
  return alarm.action.empty() ? Did{"alert", "told"} : Did{alarm.action, alarm.action_result};
}

Json PolicyIds(const Alarm& alarm) {
  Json ids = Json::array();
  for (const Violation& v : alarm.violations) {
    if (std::find(ids.begin(), ids.end(), std::string(PolicyName(v.policy))) == ids.end()) ids.push_back(PolicyName(v.policy));
  }
  return ids;
}

std::string JoinIds(const Alarm& alarm) {
  std::string out;
  for (const auto& id : PolicyIds(alarm)) out += (out.empty() ? "" : "+") + id.get<std::string>();
  return out;
}

const char* Assumption(const Alarm& alarm) {
  const uint32_t point = alarm.context.point;
  if (!alarm.future || (point != BRINK_CFI_ENTER && point != BRINK_CFI_LSM)) return nullptr;
  const bool exec = alarm.context.syscall == SYS_execve || alarm.context.syscall == SYS_execveat;
  return exec ? "the call fails" : "the call succeeds";
}

// OCSF's severity: its id is one more than ours.
const char* OcsfSeverity(Severity severity) {
  constexpr const char* kNames[] = {"Informational", "Low", "Medium", "High"};
  return kNames[static_cast<size_t>(severity)];
}

}  // namespace

std::string_view PointName(uint32_t point) {
  constexpr std::string_view kNames[] = {"", "syscall_enter", "syscall_exit", "signal", "switch", "sample", "lsm"};
  return point < 7 ? kNames[point] : "";
}

std::string_view MitreVersion() { return "16.1"; }

std::vector<Technique> TechniquesOf(const Alarm& alarm) {
  struct Row {
    const char *rules, *who, *id, *name, *tactic_id, *tactic;
  };
  static constexpr Row kRows[] = {
#include "monitor/mitre.inc"
  };
  const std::string call = CallName(alarm);
  const bool net = call.starts_with("recv") || call.starts_with("accept") || call == "connect" || call == "bind" || call == "socket";
  std::vector<Technique> out;
  for (const Row& row : kRows) {
    const std::string_view who = row.who;
    if ((who == "net" && !net) || (who == "exec" && !call.starts_with("execve")) || who == "setuid") continue;
    bool fits = false;
    for (const Violation& v : alarm.violations) {
      for (std::string_view rule : Split(row.rules, ' ')) fits |= rule == PolicyName(v.policy);
    }
    const bool there = std::any_of(out.begin(), out.end(), [&](const Technique& t) { return std::strcmp(t.id, row.id) == 0; });
    if (fits && !there) out.push_back({row.id, row.name, row.tactic_id, row.tactic});
  }
  return out;
}

std::string AlarmJson(const Alarm& a, const TextOptions& options) {
  const uint64_t real = a.time_ns + options.realtime_offset_ns;
  Json branches = Json::array(), stack = Json::array(), args = Json::array(), mitre = Json::array(), violations = Json::array(), ancestors = Json::array();
  for (const BranchEntry& b : a.branches) branches.push_back({{"from", Hex(b.from)}, {"to", Hex(b.to)}, {"kind", KindName(b.kind())}});
  for (uint32_t i = 0; i < a.context.stack_words; ++i) stack.push_back(Hex(a.context.stack[i]));
  Json registers = Json::object();
  for (const auto& [name, at] : kToldRegisters) registers[name] = Hex(a.context.regs[at]);
  for (uint64_t arg : a.context.args) args.push_back(Hex(arg));
  for (const Technique& t : TechniquesOf(a)) mitre.push_back({{"tactic", t.tactic_id}, {"technique", t.id}});
  for (const Violation& v : a.violations) {
    violations.push_back({{"policy", PolicyName(v.policy)}, {"severity", SeverityName(v.severity)}, {"rule", PolicyText(v.policy)}, {"reason", v.reason}});
  }
  for (const auto& parent : a.process.ancestors) ancestors.push_back({{"pid", parent.pid}, {"comm", parent.comm}, {"exe", OrNull(parent.exe)}});
  const std::string call = CallName(a);
  const Did did = ActionOf(a);
  Json ns = {{"pid", a.process.pid_ns ? Json(a.process.pid_ns) : Json(nullptr)}, {"mnt", a.process.mnt_ns ? Json(a.process.mnt_ns) : Json(nullptr)},
             {"net", a.process.net_ns ? Json(a.process.net_ns) : Json(nullptr)}};
  const bool in_container = !a.container.id.empty(), in_pod = !a.container.pod_uid.empty();
  const char* assumption = Assumption(a);
  const Violation* first = a.violations.empty() ? nullptr : &a.violations[0];
  return Print({
      {"schema", "brink.cfi.alarm.v1"},
      {"id", Id(a, real)},
      {"time", Time(real)},
      {"monotonic_ns", a.time_ns},
      {"host", OrNull(options.host)},
      {"rule", first ? Json(PolicyText(first->policy)) : Json(nullptr)},
      {"policy", first ? Json(PolicyName(first->policy)) : Json(nullptr)},
      {"policy_ids", PolicyIds(a)},
      {"severity", SeverityName(a.severity)},
      {"score", a.score},
      {"confidence", a.lost ? "tainted" : "full"},
      {"message", Message(a)},
      {"process", {{"pid", a.pid}, {"tid", a.tid}, {"start_time_ns", a.start_ns}, {"exec_id", OrNull(a.process.exec_id)}, {"comm", OrNull(a.comm)}, {"exe", OrNull(a.process.exe)},
                   {"cwd", OrNull(a.process.cwd)}, {"args", a.process.exe.empty() ? Json(nullptr) : Json(a.process.args)}, {"uid", a.context.uid}, {"auid", NumberOrNull(a.process.auid)},
                   {"cgroup", OrNull(a.container.cgroup)}, {"ns", ns}}},
      {"ancestors", ancestors},
      {"container", in_container ? Json({{"id", a.container.id}, {"name", OrNull(a.container.name)}, {"image", OrNull(a.container.image)}}) : Json(nullptr)},
      {"k8s", in_pod ? Json({{"namespace", OrNull(a.container.pod_namespace)}, {"pod", OrNull(a.container.pod_name)}, {"uid", a.container.pod_uid}}) : Json(nullptr)},
      {"hook", {{"point", PointName(a.context.point)}, {"syscall", OrNull(call)}, {"args", call.empty() ? Json(nullptr) : args},
                {"ret", a.context.point == BRINK_CFI_EXIT ? Json(a.context.ret) : Json(nullptr)}, {"signal", a.context.signal ? Json(a.context.signal) : Json(nullptr)}}},
      {"window", {{"len", a.branches.size()}, {"depth", a.depth}, {"direction", a.future ? "future" : "past"}, {"assumption", assumption ? Json(assumption) : Json(nullptr)},
                  {"stop", a.future ? Json(StopReasonName(static_cast<int>(a.stop))) : Json(nullptr)}, {"steps", a.steps}, {"walk_ns", a.walk_ns}, {"lost", a.lost}, {"user_only", true}}},
      {"violation", {{"index", first ? Json(first->index) : Json(nullptr)}, {"kind", first ? Json(KindName(first->kind)) : Json(nullptr)}, {"from", SideJson(a.from)}, {"to", SideJson(a.to)}}},
      {"violations", violations},
      {"branches", branches},
      {"stack", stack},
      {"registers", registers},
      {"in_kernel", {{"p1", (a.context.verdict & BRINK_CFI_P1) != 0}, {"p2", (a.context.verdict & BRINK_CFI_P2) != 0}, {"p8", (a.context.verdict & BRINK_CFI_P8) != 0},
                     {"p10", (a.context.verdict & BRINK_CFI_P10) != 0}, {"judge_ns", a.context.judge_ns}}},
      {"action", {{"taken", did.taken}, {"result", did.result}}},
      {"mitre_version", MitreVersion()},
      {"mitre", mitre},
      {"tags", Json::array({"cfi"})},
      {"suppressed_by", OrNull(a.suppressed_by)},
      {"suppressed_count", a.suppressed_count},
  });
}

std::string AlarmText(const Alarm& a, const TextOptions& options) {
  auto paint = [&](const char* code, const std::string& text) { return options.colour ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text; };
  const std::string severity(SeverityName(a.severity));
  const std::string call = CallName(a);
  std::string where = a.context.point == BRINK_CFI_SIGNAL ? absl::StrFormat("signal %d", a.context.signal) : std::string(PointName(a.context.point)) + (call.empty() ? "" : " " + call);
  std::string out = absl::StrFormat("%s %s %s: %s\n", Time(a.time_ns + options.realtime_offset_ns).substr(11, 12), paint(a.severity >= Severity::kMedium ? "1;31" : "33", severity), JoinIds(a), Message(a));
  absl::StrAppendFormat(&out, "   %s (%d/%d)%s at %s, %d branches %s%s%s\n", EscapeForTerminal(a.comm), a.pid, a.tid, a.container.id.empty() ? "" : " in " + EscapeForTerminal(a.container.name.empty() ? a.container.id.substr(0, 12) : a.container.name),
                        where, a.branches.size(), a.future ? "ahead" : "back", Assumption(a) ? std::string(" if ") + Assumption(a) : "", a.lost ? ", with losses" : "");
  if (!a.process.args.empty()) {
    std::string line;
    for (const std::string& arg : a.process.args) line += (line.empty() ? "" : " ") + arg;
    absl::StrAppendFormat(&out, "   %s\n", EscapeForTerminal(line.substr(0, 160)));
  }
  for (size_t i = 1; i < a.violations.size(); ++i) absl::StrAppendFormat(&out, "   also %s: %s\n", std::string(PolicyName(a.violations[i].policy)), a.violations[i].reason);
  const size_t broken = a.violations.empty() ? a.branches.size() : a.violations[0].index;
  const bool on_edge = broken < a.branches.size() && a.branches[broken].from == a.from.address && a.branches[broken].to == a.to.address;
  constexpr size_t kAround = 4;
  for (size_t i = a.branches.size(); i-- > 0;) {
    if (on_edge && (i > broken + kAround || i + kAround < broken)) continue;
    const std::string from = 2 * i + 1 < a.names.size() ? a.names[2 * i] : Hex(a.branches[i].from), to = 2 * i + 1 < a.names.size() ? a.names[2 * i + 1] : Hex(a.branches[i].to);
    if (on_edge && i == broken) {
      out += paint("1;31", absl::StrFormat("   >> %-8s %s", std::string(KindName(a.branches[i].kind())), EscapeForTerminal(from))) + "\n";
      out += paint("1;31", absl::StrFormat("   >>    -X->  %s", EscapeForTerminal(to)));
      if (!a.to.bytes.empty()) out += "   bytes " + HexEncode(a.to.bytes);
      out += "\n";
    } else if (!on_edge && a.branches.size() - i > 2 * kAround) {
      continue;
    } else {
      absl::StrAppendFormat(&out, "      %-8s %s -> %s\n", std::string(KindName(a.branches[i].kind())), EscapeForTerminal(from), EscapeForTerminal(to));
    }
  }
  if (!on_edge) absl::StrAppendFormat(&out, "   >> %s\n", EscapeForTerminal(Where(a.to)));
  const Did did = ActionOf(a);
  if (did.taken != "alert") absl::StrAppendFormat(&out, "   action %s: %s\n", did.taken, did.result);
  if (a.suppressed_count) absl::StrAppendFormat(&out, "   %d more of these since the last one\n", a.suppressed_count);
  return out;
}

std::string AlarmOcsf(const Alarm& a, const TextOptions& options) {
  const uint64_t real = a.time_ns + options.realtime_offset_ns;
  Json attacks = Json::array();
  for (const Technique& t : TechniquesOf(a)) {
    const std::string id = t.id;
    Json attack = {{"tactic", {{"uid", t.tactic_id}, {"name", t.tactic}}}, {"technique", {{"uid", id.substr(0, id.find('.'))}, {"name", t.name}}}, {"version", MitreVersion()}};
    if (id.find('.') != id.npos) attack["sub_technique"] = {{"uid", id}, {"name", t.name}};
    attacks.push_back(attack);
  }
  Json process = {{"pid", a.pid}, {"tid", a.tid}, {"name", a.comm}, {"uid", a.process.exec_id}};
  if (!a.process.exe.empty()) process["file"] = {{"path", a.process.exe}, {"name", a.process.exe.substr(a.process.exe.rfind('/') + 1)}, {"type_id", 1}};
  return Print({{"category_uid", 2}, {"category_name", "Findings"}, {"class_uid", 2004}, {"class_name", "Detection Finding"}, {"activity_id", 1}, {"activity_name", "Create"}, {"type_uid", 200401},
                {"time", real / 1'000'000}, {"severity_id", static_cast<int>(a.severity) + 1}, {"severity", OcsfSeverity(a.severity)}, {"status_id", 1},
                {"message", Message(a)},
                {"metadata", {{"version", kOcsfVersion}, {"product", {{"name", "brink"}, {"vendor_name", "brink"}}}, {"uid", Id(a, real)}}},
                {"finding_info", {{"uid", Id(a, real)}, {"title", JoinIds(a) + ": " + Message(a)}, {"types", PolicyIds(a)}, {"attacks", attacks}}},
                {"evidences", Json::array({{{"process", process}, {"data", {{"from", SideJson(a.from)}, {"to", SideJson(a.to)}}}}})},
                {"device", {{"hostname", options.host.empty() ? "unknown" : options.host}, {"type_id", 0}}},
                {"observables", Json::array({{{"name", "evidences[].process.name"}, {"type_id", 9}, {"value", a.comm}}})}});
}

std::string AlarmFalco(const Alarm& a, const TextOptions& options) {
  constexpr const char* kPriorities[] = {"Informational", "Notice", "Warning", "Critical"};
  const uint64_t real = a.time_ns + options.realtime_offset_ns;
  Json tags = Json::array({"cfi"});
  if (!a.container.id.empty()) tags.push_back("container");
  for (const Technique& t : TechniquesOf(a)) tags.push_back(t.id);
  Json fields = {{"proc.name", a.comm}, {"proc.pid", a.pid}, {"thread.tid", a.tid}, {"proc.exepath", OrNull(a.process.exe)}, {"user.uid", a.context.uid}, {"container.id", a.container.id.empty() ? "host" : a.container.id},
                 {"container.name", OrNull(a.container.name)}, {"container.image.repository", OrNull(a.container.image)}, {"k8s.ns.name", OrNull(a.container.pod_namespace)}, {"k8s.pod.name", OrNull(a.container.pod_name)},
                 {"evt.type", OrNull(CallName(a))}, {"brink.from", Where(a.from)}, {"brink.to", Where(a.to)}};
  return Print({{"hostname", options.host}, {"output", Time(real) + ": " + kPriorities[static_cast<size_t>(a.severity)] + " " + AlarmLine(a)}, {"priority", kPriorities[static_cast<size_t>(a.severity)]},
                {"rule", "brink " + JoinIds(a)}, {"source", "brink"}, {"tags", tags}, {"time", Time(real)}, {"uuid", Id(a, real)}, {"output_fields", fields}});
}

std::string AlarmLine(const Alarm& a) {
  return absl::StrFormat("brink cfi %s %s: %s: %s -> %s in %s (%d)", std::string(SeverityName(a.severity)), JoinIds(a), Message(a), Where(a.from), Where(a.to), EscapeForTerminal(a.comm), a.pid);
}

}  // namespace brink::cfi
