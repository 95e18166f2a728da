#include "kernel/perf_parse.h"

#include <filesystem>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include <absl/strings/str_cat.h>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "kernel/perf_names.h"
#include "kernel/perf_pmu.h"
#include "kernel/tracefs.h"

namespace brink {
namespace {

bool IsModifiers(std::string_view text) { return !text.empty() && text.find_first_not_of("ukhpPGHD") == std::string_view::npos; }

Status ApplyModifiers(std::string_view text, EventSpec* event) {
  bool user = false, kernel = false, hv = false, guest = false, host = false;
  for (char c : text) {
    switch (c) {
      case 'u': user = true; break;
      case 'k': kernel = true; break;
      case 'h': hv = true; break;
      case 'G': guest = true; break;
      case 'H': host = true; break;
      case 'p': ++event->precise; break;
      case 'P': event->precise = 3; break;
      default:
        return InvalidArgument(absl::StrCat("event ", event->name, ": modifier '", std::string(1, c), "' is not known to brink; use u k h p G H"));
    }
  }
  if (event->precise > 3) return InvalidArgument("event " + event->name + ": at most three p");
  if (user || kernel || hv) {
    event->exclude_user = !user;
    event->exclude_kernel = !kernel;
    event->exclude_hv = !hv;
  }
  if (guest || host) {
    event->exclude_guest = !guest;
    event->exclude_host = !host;
  }
  return OkStatus();
}

// "ADDR[/LENGTH][:ACCESS]" after "mem:".
Status ParseBreakpoint(std::string_view text, EventSpec* event) {
  std::string access = "w";
  bool length_given = false;
  if (size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    access = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  uint64_t length = 8;
  if (size_t slash = text.find('/'); slash != std::string_view::npos) {
    ASSIGN_OR_RETURN(length, ParseUint(text.substr(slash + 1)));
    length_given = true;
    text = text.substr(0, slash);
  }
  auto address = ParseUint(text);
  if (!address.ok()) return Annotate(address.status(), "event " + event->name + ": address");
  if (access == "x") {
    event->bp_type = HW_BREAKPOINT_X;
    if (length_given && length != sizeof(long)) return InvalidArgument("event " + event->name + ": an execution breakpoint has length 8");
    length = sizeof(long);
  } else if (access == "w") {
    event->bp_type = HW_BREAKPOINT_W;
  } else if (access == "rw" || access == "wr") {
    event->bp_type = HW_BREAKPOINT_RW;
  } else if (access == "r") {
    return InvalidArgument("event " + event->name + ": x86 has no read-only watchpoint; use rw");
  } else {
    return InvalidArgument("event " + event->name + ": access '" + EscapeForTerminal(access) + "' is not one of x, w, rw");
  }
  if (length != 1 && length != 2 && length != 4 && length != 8) {
    return InvalidArgument(absl::StrCat("event ", event->name, ": length ", length, " is not 1, 2, 4 or 8"));
  }
  if (access != "x" && *address % length) {
    return InvalidArgument(absl::StrCat("event ", event->name, ": the address is not a multiple of the length ", length));
  }
  event->type = PERF_TYPE_BREAKPOINT;
  event->config1 = *address;
  event->config2 = length;
  return OkStatus();
}

Status ParseTracepoint(const KernelRoots& roots, std::string_view category, std::string_view name, EventSpec* event) {
  for (std::string_view part : {category, name}) {
    if (part.empty() || part.find_first_of("/.") != std::string_view::npos) {
      return InvalidArgument("unknown event '" + EscapeForTerminal(event->name) + "'");
    }
  }
  bool mounted = false, denied = false;
  std::vector<std::string> places = roots.tracefs;
  if (places.empty()) places.push_back(TracefsRoot());
  for (const std::string& root : places) {
    std::error_code error;
    mounted = mounted || std::filesystem::exists(root + "/events", error);
    denied = denied || error.value() == EACCES || error.value() == EPERM;
    auto text = ReadFile(absl::StrCat(root, "/events/", std::string(category), "/", std::string(name), "/id"), 64);
    if (!text.ok()) {
      denied = denied || ErrnoOf(text.status()) == EACCES || ErrnoOf(text.status()) == EPERM;
      continue;
    }
    ASSIGN_OR_RETURN(event->config, ParseUint(Trim(*text)));
    event->type = PERF_TYPE_TRACEPOINT;
    return OkStatus();
  }
  if (denied) {
    return PermissionDenied("event " + event->name + ": tracefs is not readable; run as root or with CAP_DAC_READ_SEARCH");
  }
  if (!mounted) {
    return FailedPrecondition("event " + event->name + ": tracefs is not mounted; mount -t tracefs tracefs /sys/kernel/tracing");
  }
  return NotFound("event " + event->name + ": this kernel has no such tracepoint");
}

Status UnknownEvent(std::string_view text) {
  auto near = NearestNames(text, GenericEventNames(), 1);
  return InvalidArgument("unknown event '" + EscapeForTerminal(text) + "'" + (near.empty() ? "" : "; did you mean '" + near[0] + "'?"));
}

StatusOr<EventSpec> ParsePlain(std::string_view base, const KernelRoots& roots, EventSpec event) {
  if (auto generic = FindGenericEvent(base)) {
    event.type = generic->type;
    event.config = generic->config;
    return event;
  }
  if (base.size() > 1 && base[0] == 'r' && base.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string_view::npos) {
    ASSIGN_OR_RETURN(event.config, ParseUint("0x" + std::string(base.substr(1))));
    event.type = PERF_TYPE_RAW;
    return event;
  }
  for (const std::string& pmu : CorePmus(roots)) {
    if (!PmuHasEvent(roots, pmu, base)) continue;
    RETURN_IF_ERROR(ParsePmuTerms(roots, pmu, base, &event));
    return event;
  }
  return UnknownEvent(base);
}

}  // namespace

bool EventSpec::is_clock() const {
  return type == PERF_TYPE_SOFTWARE && (config == PERF_COUNT_SW_CPU_CLOCK || config == PERF_COUNT_SW_TASK_CLOCK);
}
bool EventSpec::is_software() const { return type == PERF_TYPE_SOFTWARE; }
bool EventSpec::is_tracepoint() const { return type == PERF_TYPE_TRACEPOINT; }
bool EventSpec::is_breakpoint() const { return type == PERF_TYPE_BREAKPOINT; }

std::vector<std::string> CorePmus(const KernelRoots& roots) {
  std::vector<std::string> pmus;
  std::error_code error;
  std::filesystem::directory_iterator folder(roots.sysfs + "/bus/event_source/devices", error);
  for (; !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    std::string name = folder->path().filename();
    // x86 calls it cpu (cpu_core, cpu_atom on hybrid parts); elsewhere a core PMU says which CPUs it serves.
    bool core = name == "cpu" || name == "cpu_core" || name == "cpu_atom" || name == "cpu_lowpower" ||
                (name.find("pmu") != std::string::npos && std::filesystem::exists(folder->path() / "cpus", error));
    if (core) pmus.push_back(name);
  }
  std::sort(pmus.begin(), pmus.end());
  // Performance cores first: their PMU is the one to ask when there are two.
  std::stable_partition(pmus.begin(), pmus.end(), [](const std::string& name) { return name == "cpu_core"; });
  return pmus;
}

StatusOr<EventSpec> ParseEvent(std::string_view text, const KernelRoots& roots) {
  text = Trim(text);
  EventSpec event;
  event.name = EscapeForTerminal(text);
  if (text.empty()) return InvalidArgument("an event name is empty");

  if (text.substr(0, 4) == "mem:") {
    std::string_view rest = text.substr(4);
    if (size_t colon = rest.rfind(':'); colon != std::string_view::npos && rest.find(':') != colon && IsModifiers(rest.substr(colon + 1))) {
      RETURN_IF_ERROR(ApplyModifiers(rest.substr(colon + 1), &event));
      rest = rest.substr(0, colon);
    }
    RETURN_IF_ERROR(ParseBreakpoint(rest, &event));
    return event;
  }
  if (size_t slash = text.find('/'); slash != std::string_view::npos) {
    size_t end = text.rfind('/');
    if (end == slash) return InvalidArgument("event " + event.name + ": the closing '/' is missing (PMU/term=value,.../)");
    std::string_view modifiers = text.substr(end + 1);
    if (!modifiers.empty() && modifiers[0] == ':') modifiers = modifiers.substr(1);
    RETURN_IF_ERROR(ApplyModifiers(modifiers, &event));
    RETURN_IF_ERROR(ParsePmuTerms(roots, text.substr(0, slash), text.substr(slash + 1, end - slash - 1), &event));
    return event;
  }
  size_t colon = text.find(':');
  if (colon == std::string_view::npos) return ParsePlain(text, roots, std::move(event));
  std::string_view base = text.substr(0, colon), rest = text.substr(colon + 1);
  // "cycles:u" against "sched:sched_switch": a tail made of modifier letters after a name that is known is modifiers.
  if (IsModifiers(rest) || FindGenericEvent(base)) {
    auto plain = ParsePlain(base, roots, event);
    if (plain.ok()) {
      RETURN_IF_ERROR(ApplyModifiers(rest, &*plain));
      return plain;
    }
  }
  size_t second = rest.find(':');
  if (second != std::string_view::npos) RETURN_IF_ERROR(ApplyModifiers(rest.substr(second + 1), &event));
  RETURN_IF_ERROR(ParseTracepoint(roots, base, rest.substr(0, second), &event));
  return event;
}

StatusOr<std::vector<EventSpec>> ParseEventList(std::string_view text, const KernelRoots& roots) {
  std::vector<EventSpec> events;
  bool inside = false;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    // Only a PMU's terms hold commas; mem:ADDR/LENGTH has one slash and none.
    if (i < text.size() && text[i] == '/' && text.substr(start, 4) != "mem:") inside = !inside;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    ASSIGN_OR_RETURN(EventSpec event, ParseEvent(text.substr(start, i - start), roots));
    events.push_back(std::move(event));
    start = i + 1;
  }
  return events;
}

}  // namespace brink
