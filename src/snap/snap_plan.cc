// From the words of a request to the plan of each trigger: everything that is looked up and checked before anything is
// loaded.
#include "snap/snap_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "filter/compile.h"
#include "kernel/tracefs.h"
#include "snap/syscalls.h"
#include "snap/tests.h"

namespace brink::snap {
namespace {

constexpr const char* kTextPayload = "brink.snap.text";

Status PointInto(const Status& status, const std::string& text, const std::string& option) {
  Status out = Annotate(status, option + " '" + EscapeForTerminal(text) + "'");
  out.SetPayload(kTextPayload, absl::Cord(text));
  return out;
}

// Those of `names` that ftrace can reach: one that it cannot would fail a whole glob. All of them where that is not told.
std::vector<std::string> Probeable(std::vector<std::string> names) {
  auto text = TracefsRoot().empty() ? StatusOr<std::string>(NotFound("tracefs")) : ReadFile(TracefsRoot() + "/available_filter_functions");
  if (!text.ok() || text->empty()) return names;
  std::set<std::string_view> known;
  for (std::string_view line : Split(*text, '\n')) known.insert(line.substr(0, line.find_first_of(" \t")));
  std::erase_if(names, [&](const std::string& name) { return !known.contains(name); });
  return names;
}

// A probe that would break the program is not set, whoever asks for it.
Status LeaveOutMangled(const Trigger& trigger, TriggerPlan* plan) {
  const Place first = plan->places[0];
  plan->left_out = std::erase_if(plan->places, [](const Place& place) { return place.mangled != 0; });
  if (!plan->places.empty()) return OkStatus();
  std::string next = trigger.symbol.empty() || trigger.glob() ? absl::StrFormat("0x%x", first.vaddr + first.mangled) : absl::StrFormat("%s+0x%x", trigger.symbol, trigger.offset + first.mangled);
  return FailedPrecondition("--on " + EscapeForTerminal(trigger.text) + ": " + EscapeForTerminal(first.name) + " begins with a vector instruction that the kernel's uprobes take for another; the program would go on with wrong registers. Probe the next one: " + EscapeForTerminal(next));
}

// Whether tracefs knows it; else the nearest of its category, or the nearest category.
Status CheckTracepoint(const Trigger& trigger) {
  std::string root = TracefsRoot() + "/events";
  if (TracefsRoot().empty()) return FailedPrecondition("tracefs is not readable: mount -t tracefs tracefs /sys/kernel/tracing, or run as root");
  if (access((root + "/" + trigger.category + "/" + trigger.name).c_str(), F_OK) == 0) return OkStatus();
  bool category = access((root + "/" + trigger.category).c_str(), F_OK) == 0;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(category ? root + "/" + trigger.category : root, error), end; !error && it != end; it.increment(error)) names.push_back(it->path().filename());
  std::string near;
  for (const std::string& name : NearestNames(category ? trigger.name : trigger.category, names)) near += (near.empty() ? "; nearest: " : ", ") + (category ? trigger.category + ":" : "") + name;
  if (trigger.name.find_first_of("*?[") != std::string::npos) return InvalidArgument("--on '" + EscapeForTerminal(trigger.text) + "': globs go with kprobe and uprobe; give --on for each tracepoint (of all system calls: syscall:*)");
  return NotFound("--on '" + EscapeForTerminal(trigger.text) + "': no tracepoint" + (category ? "" : " category") + " '" + EscapeForTerminal(category ? trigger.name : trigger.category) + "'" + near);
}

}  // namespace

std::string ErrorText(const Status& status) {
  auto payload = status.GetPayload(kTextPayload);
  return payload ? std::string(*payload) : "";
}

// The functions that say no on the way of a path to a file, from the innermost on: of the captures of one call the first is
// of the function that decided. Outer ones, and the system call, follow with their results.
Status SnapSource::AddErrnoPath() {
  if (!request_.triggers.empty()) return InvalidArgument("--errno-path sets triggers and a condition of its own: it does not go with --on");
  if (!SyscallByName(request_.errno_path)) {
    std::string near;
    for (const std::string& name : NearestNames(request_.errno_path, SyscallNames())) near += (near.empty() ? "; nearest: " : ", ") + name;
    return InvalidArgument("--errno-path: no system call '" + EscapeForTerminal(request_.errno_path) + "'" + near);
  }
  constexpr const char* kDeciders[] = {"generic_permission", "security_inode_permission", "inode_permission", "may_open", "mnt_want_write", "security_file_open", "may_delete"};
  auto types = Types();
  if (!types.ok()) return types.status();
  size_t found = 0;
  for (const char* function : kDeciders) {
    auto known = (*types)->Function(function);
    if (!known.ok() || !KernelTypes::IsInt(known->types, known->result)) continue;
    request_.triggers.push_back(std::string("fexit:") + function);
    ++found;
  }
  if (found == 0) return FailedPrecondition("--errno-path: this kernel's BTF knows none of the functions that decide");
  request_.triggers.push_back("syscall:" + request_.errno_path);
  // -ECHILD is the path walk asking itself for another try.
  if (request_.condition.empty()) request_.condition = "ret < 0 and ret >= -4095 and ret != -ECHILD";
  if (request_.privilege == SnapRequest::Privilege::kOfTrigger) request_.privilege = SnapRequest::Privilege::kKernel;
  return OkStatus();
}

Status SnapSource::AddTrigger(const std::string& text) {
  auto trigger = ParseTrigger(text);
  if (!trigger.ok()) return PointInto(trigger.status(), text, "--on");
  return PlanTrigger(*std::move(trigger));
}

Status SnapSource::PlanTrigger(Trigger trigger) {
  TriggerPlan plan;
  plan.pid = -1;
  switch (trigger.kind) {
    case TriggerKind::kSyscallEnter: case TriggerKind::kSyscallExit: {
      auto number = SyscallByName(trigger.name);
      if (!number && trigger.name != "*") {
        std::string near;
        for (const std::string& name : NearestNames(trigger.name, SyscallNames())) near += (near.empty() ? "; nearest: " : ", ") + name;
        return InvalidArgument("--on '" + EscapeForTerminal(trigger.text) + "': no system call '" + EscapeForTerminal(trigger.name) + "'" + near);
      }
      plan.config.syscall = number ? static_cast<uint32_t>(*number) : ~0u;
      break;
    }
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: case TriggerKind::kFentry: case TriggerKind::kFexit:
      plan.functions = {trigger.name};
      if (trigger.glob()) {
        ASSIGN_OR_RETURN(KernelTypes * types, Types());
        plan.functions = Probeable(types->FunctionNames(trigger.name));
        if (plan.functions.empty()) return NotFound("--on '" + EscapeForTerminal(trigger.text) + "': no kernel function matches");
      }
      break;
    case TriggerKind::kUprobe: case TriggerKind::kUretprobe: case TriggerKind::kUsdt: {
      ASSIGN_OR_RETURN(UserProgram program, FindProgramOf(trigger));
      plan.program = program.path;
      plan.shown_program = program.shown;
      plan.program_file = program.file;
      auto places = FindPlaces(trigger, program, request_.pid);
      if (!places.ok()) return Annotate(places.status(), "--on " + EscapeForTerminal(trigger.text));
      plan.places = *std::move(places);
      RETURN_IF_ERROR(LeaveOutMangled(trigger, &plan));
      break;
    }
    case TriggerKind::kRawTracepoint: {
      ASSIGN_OR_RETURN(KernelTypes * types, Types());
      auto known = types->RawTracepoint(trigger.name);
      if (!known.ok()) return Annotate(known.status(), "--on '" + EscapeForTerminal(trigger.text) + "'");
      break;
    }
    case TriggerKind::kTracepoint: RETURN_IF_ERROR(CheckTracepoint(trigger)); break;
    case TriggerKind::kWatch:
      if (!trigger.watch_symbol.empty()) return InvalidArgument("--on '" + EscapeForTerminal(trigger.text) + "': give the address as a number (nm PROGRAM; of a position-independent program add its base in /proc/PID/maps)");
      break;
    default: break;
  }
  brink_snap_config& config = plan.config;
  config.trigger = static_cast<uint32_t>(plans_.size());
  config.flags = (request_.chain_kernel ? BRINK_SNAP_CFG_CHAIN_KERNEL : 0) | (request_.chain_user ? BRINK_SNAP_CFG_CHAIN_USER : 0) |
                 (request_.history ? BRINK_SNAP_CFG_HISTORY : 0);
  const bool probe = trigger.kind == TriggerKind::kUprobe || trigger.kind == TriggerKind::kUretprobe || trigger.kind == TriggerKind::kUsdt;
  if (probe) config.flags |= BRINK_SNAP_CFG_USER_CTX;
  if (trigger.side() == Side::kKernel) config.flags |= BRINK_SNAP_CFG_ENTRY_KERNEL;
  config.signals = trigger.signals;
  if (trigger.fatal_only) config.flags |= BRINK_SNAP_CFG_FATAL;
  config.nth = std::max<uint64_t>(request_.nth, 1);
  config.count = request_.count;
  config.limit = request_.limit;
  config.own_tgid = static_cast<uint32_t>(getpid());
  RETURN_IF_ERROR(ConfigureValues(trigger, &plan));
  RETURN_IF_ERROR(ConfigureGroups(&config));
  plan.trigger = shown_.back().trigger;
  plans_.push_back(std::move(plan));
  return OkStatus();
}

Status SnapSource::ConfigureValues(const Trigger& trigger, TriggerPlan* plan) {
  auto types = Types();
  shown_.push_back({.trigger = trigger, .values = {}, .strings = {}});
  ValueTable values(shown_.back().trigger, types.ok() ? *types : nullptr, plan->program, plan->places);
  brink_snap_config& config = plan->config;
  if (!request_.condition.empty()) {
    const std::string text = ReplaceArrows(request_.condition);
    auto expr = filter::Parse(text, {.external = [&](std::string_view name) { return values.Resolve(name); }});
    if (!expr.ok()) {
      Status status = Annotate(expr.status(), "--if");
      status.SetPayload(kTextPayload, absl::Cord(text));
      return status;
    }
    filter::Expr simple = filter::Simplify(*expr);
    if (!filter::Satisfiable(simple)) return InvalidArgument("--if can never be true: " + filter::ExplainContradiction(simple));
    if (filter::ReadsRecord(simple)) return InvalidArgument("--if reads branch records; conditions are about the hit. Use --where on the recording for records");
    filter::Compiled compiled = filter::Compile(simple, {.cgroup_id = [&](std::string_view path) -> std::optional<uint64_t> {
      auto id = CgroupIdOf(hierarchy_, path);
      return id.ok() ? std::optional(*id) : std::nullopt;
    }});
    if (!compiled.rest.empty()) return InvalidArgument("--if '" + filter::ToString(compiled.rest[0]) + "' cannot be decided in the kernel: " + compiled.reasons[0] + (filter::ReadsField(simple, filter::Field::kContainer) || filter::ReadsField(simple, filter::Field::kPod) ? "; use --container and --pod" : ""));
    config.filter = compiled.prog;
    config.tests = OrderTests(&config.filter);
    config.flags |= BRINK_SNAP_CFG_FILTER;
  }
  if (request_.slower_ns) {
    if (!trigger.returns()) return InvalidArgument("--slower-than needs a return: kretprobe, fexit, uretprobe, syscall:NAME; '" + EscapeForTerminal(trigger.text) + "' has none");
    config.slower_ns = *request_.slower_ns;
    RETURN_IF_ERROR(values.Resolve("ctx.duration").status());
  }
  // Tells which errors of other functions fell into this call.
  if (!request_.errno_path.empty() && trigger.kind == TriggerKind::kSyscallExit) RETURN_IF_ERROR(values.Resolve("ctx.duration").status());
  RETURN_IF_ERROR(ConfigureKey(&values, &config));
  values.AddShown();
  plan->needs_entry = values.needs_entry();
  if (config.slower_ns) config.flags |= BRINK_SNAP_CFG_NEED_ENTRY;
  plan->result_offset = values.result_offset();
  config.loads = static_cast<uint32_t>(values.values().size());
  for (size_t i = 0; i < values.values().size(); ++i) config.load[i] = values.values()[i].load;
  config.strings = static_cast<uint32_t>(values.strings().size());
  for (size_t i = 0; i < values.strings().size(); ++i) {
    config.string[i] = values.strings()[i].load;
    shown_.back().strings.push_back(values.strings()[i].name);
  }
  shown_.back().values = values.values();
  return OkStatus();
}

Status SnapSource::ConfigureKey(ValueTable* values, brink_snap_config* config) {
  const std::string& word = request_.once_per;
  if (word.empty()) return OkStatus();
  struct Key {
    const char* name;
    brink_snap_key key;
  };
  constexpr Key kKeys[] = {{"pid", BRINK_SNAP_KEY_PID}, {"tid", BRINK_SNAP_KEY_TID}, {"cpu", BRINK_SNAP_KEY_CPU}, {"uid", BRINK_SNAP_KEY_UID},
                           {"comm", BRINK_SNAP_KEY_COMM}, {"container", BRINK_SNAP_KEY_CGROUP}, {"cgroup", BRINK_SNAP_KEY_CGROUP}, {"ip", BRINK_SNAP_KEY_IP}};
  for (const Key& key : kKeys) {
    if (word != key.name) continue;
    config->key = key.key;
    return OkStatus();
  }
  std::string name = ReplaceArrows(word);
  if (name != "ret" && !name.starts_with("args.") && !name.starts_with("ctx.")) return InvalidArgument("--once-per '" + EscapeForTerminal(word) + "' is none of pid, tid, cpu, uid, comm, container, ip, ret, args.NAME");
  auto field = values->Resolve(name);
  if (!field.ok()) return Annotate(field.status(), "--once-per");
  config->key = BRINK_SNAP_KEY_SLOT;
  config->key_slot = field->slot;
  return OkStatus();
}

}  // namespace brink::snap
