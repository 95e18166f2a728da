#include "snap/snap_source.h"

#include <bpf/bpf.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "filter/compile.h"
#include "kernel/tracefs.h"
#include "session/sampling.h"
#include "snap/syscalls.h"

namespace brink::snap {
namespace {

constexpr const char* kTextPayload = "brink.snap.text";
constexpr uint64_t kGroupLookNs = 1'000'000'000;

Status PointInto(const Status& status, const std::string& text, const std::string& option) {
  Status out = Annotate(status, option + " '" + EscapeForTerminal(text) + "'");
  out.SetPayload(kTextPayload, absl::Cord(text));
  return out;
}

// How a trigger's program is reached, for learning what the way to it burns. Nothing where user branches are held: none
// of them are ours.
std::optional<HookKind> HookOf(TriggerKind kind, bool multi) {
  switch (kind) {
    case TriggerKind::kTracepoint: return HookKind::kTracepoint;
    case TriggerKind::kRawTracepoint: case TriggerKind::kOom: case TriggerKind::kSyscallEnter: case TriggerKind::kSyscallExit: return HookKind::kRawTp;
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: return multi ? HookKind::kKprobeMulti : HookKind::kKprobe;
    case TriggerKind::kFentry: return HookKind::kFentry;
    case TriggerKind::kFexit: return HookKind::kFexit;
    default: return std::nullopt;
  }
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
  return NotFound("--on '" + EscapeForTerminal(trigger.text) + "': no tracepoint" + (category ? "" : " category") + " '" + EscapeForTerminal(category ? trigger.name : trigger.category) + "'" + near);
}

}  // namespace

std::string ErrorText(const Status& status) {
  auto payload = status.GetPayload(kTextPayload);
  return payload ? std::string(*payload) : "";
}

StatusOr<std::unique_ptr<SnapSource>> SnapSource::Create(SnapRequest request) {
  std::unique_ptr<SnapSource> source(new SnapSource);
  source->request_ = std::move(request);
  if (!source->request_.errno_path.empty()) RETURN_IF_ERROR(source->AddErrnoPath());
  if (source->request_.triggers.empty()) return InvalidArgument("say when: --on TRIGGER; example: brink snap --on syscall:openat --if 'ret == -EACCES'");
  source->hierarchy_ = ChooseHierarchy();
  source->resolver_ = std::make_unique<ContainerResolver>(ResolverOptions{.runtime_root = source->request_.runtime_root, .hierarchy = source->hierarchy_});
  for (const std::string& text : source->request_.triggers) RETURN_IF_ERROR(source->AddTrigger(text));
  RETURN_IF_ERROR(source->ChooseBranches());
  return source;
}

StatusOr<KernelTypes*> SnapSource::Types() {
  if (!types_) {
    ASSIGN_OR_RETURN(types_, KernelTypes::Load());
  }
  return types_.get();
}

// The functions that say no on the way of a path to a file, from the innermost on: of the captures of one call the first is
// of the function that decided. Outer ones, and the system call, follow with their results.
Status SnapSource::AddErrnoPath() {
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
      ASSIGN_OR_RETURN(UserProgram program, FindProgram(trigger.path, request_.pid));
      plan.program = program.path;
      auto places = FindPlaces(trigger, plan.program);
      if (!places.ok()) return Annotate(places.status(), "--on " + EscapeForTerminal(trigger.text));
      plan.places = *std::move(places);
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

Status SnapSource::ConfigureGroups(brink_snap_config* config) {
  const GroupRequest& groups = request_.groups;
  if (!hierarchy_.v2()) {
    auto types = Types();
    auto index = types.ok() ? (*types)->Enumerator(hierarchy_.controller + "_cgrp_id") : std::nullopt;
    // cpuset_cgrp_id and the like; blkio is "io" inside the kernel.
    if (!index && types.ok() && hierarchy_.controller == "blkio") index = (*types)->Enumerator("io_cgrp_id");
    if (index) {
      subsys_ = *index;
      config->subsys = *index;
      config->flags |= BRINK_SNAP_CFG_V1;
    }
  }
  if (groups.wants()) config->flags |= BRINK_SNAP_CFG_CGROUPS;
  if (groups.excludes()) config->flags |= BRINK_SNAP_CFG_NOT_CGROUPS;
  if (groups.pidns_of) {
    struct stat info;
    std::string path = "/proc/" + std::to_string(groups.pidns_of) + "/ns/pid";
    if (stat(path.c_str(), &info) != 0) return NotFound("--pidns: no process " + std::to_string(groups.pidns_of));
    config->pidns = static_cast<uint32_t>(info.st_ino);
    config->flags |= BRINK_SNAP_CFG_PIDNS;
  }
  return OkStatus();
}

Status SnapSource::ChooseBranches() {
  if (request_.branches == SnapRequest::Branches::kNone) {
    no_branches_ = "not asked for";
    return OkStatus();
  }
  using Privilege = SnapRequest::Privilege;
  TriggerSide side = TriggerSide::kUser;
  if (request_.privilege == Privilege::kOfTrigger) {
    bool user = false, kernel = false;
    for (const TriggerPlan& plan : plans_) (plan.trigger.side() == Side::kUser ? user : kernel) = true;
    if (user && kernel) {
      return InvalidArgument("--on mixes triggers of user code and of the kernel: the CPU's branch filter is one; give --priv u, k or ku (with ku most entries of a user trigger are the kernel's way to the probe)");
    }
    side = kernel ? TriggerSide::kKernel : TriggerSide::kUser;
  } else {
    side = request_.privilege == Privilege::kUser ? TriggerSide::kUser : request_.privilege == Privilege::kKernel ? TriggerSide::kKernel : TriggerSide::kBoth;
  }
  auto held = HeldEvents::Open(HeldFlags(side));
  if (!held.ok()) {
    if (request_.branches == SnapRequest::Branches::kLbr) return held.status();
    no_branches_ = Message(held.status());
    return OkStatus();
  }
  branch_flags_ = held->flags();
  for (TriggerPlan& plan : plans_) plan.config.flags |= BRINK_SNAP_CFG_SNAPSHOT;
  return OkStatus();
}

SourceTraits SnapSource::traits() const {
  SourceTraits traits;
  traits.name = branch_flags_ ? "lbr" : "none";
  traits.id = branch_flags_ ? BRINK_SOURCE_LBR : BRINK_SOURCE_NONE;
  traits.direction = BRINK_DIR_PAST;
  traits.branch_sample_type = branch_flags_;
  traits.depth = branch_flags_ ? BRINK_MAX_HW_BRANCHES : 0;
  // Trimming takes entries from the newest end only: what is left follows on each other.
  traits.contiguous = branch_flags_ != 0;
  traits.sampling_events = false;
  return traits;
}

Status SnapSource::Prepare(SourceContext& /*context*/) {
  paths_.resize(plans_.size());
  fallbacks_.resize(plans_.size());
  if (!branch_flags_) return OkStatus();
  // Before the session's own event is held: there is one filter a CPU. Once a kind of hook: each takes programs of its own.
  std::map<HookKind, std::optional<CapturePath>> calibrated;
  for (size_t i = 0; i < plans_.size(); ++i) {
    auto hook = HookOf(plans_[i].trigger.kind, plans_[i].functions.size() > 1);
    if (!hook || !(branch_flags_ & PERF_SAMPLE_BRANCH_KERNEL)) continue;
    auto [known, fresh] = calibrated.try_emplace(*hook);
    if (fresh) {
      auto calibration = Calibrate(*hook);
      if (calibration.ok()) known->second = calibration->path;
      else notes_.push_back("branches of " + plans_[i].trigger.text + " and its like are not trimmed: " + Message(calibration.status()));
    }
    paths_[i] = known->second;
  }
  return OkStatus();
}

Status SnapSource::LoadTrigger(size_t index, SourceContext& context) {
  auto share = [&](bpf_object* object) { return context.Share(object); };
  auto object = TriggerObject::Load(plans_[index], share, maps_);
  const TriggerKind kind = plans_[index].trigger.kind;
  if (!object.ok() && (kind == TriggerKind::kFentry || kind == TriggerKind::kFexit) && object.status().code() != absl::StatusCode::kNotFound) {
    // The same function by a kprobe, whose context is laid out otherwise.
    Trigger other = plans_[index].trigger;
    other.kind = kind == TriggerKind::kFentry ? TriggerKind::kKprobe : TriggerKind::kKretprobe;
    notes_.push_back(std::string(TriggerKindName(kind)) + " is refused here (" + Message(object.status()) + "): " + std::string(TriggerKindName(other.kind)) + " taken instead");
    std::vector<ShownTrigger> shown = std::move(shown_);
    std::vector<TriggerPlan> plans = std::move(plans_);
    shown_.clear();
    plans_.clear();
    Status planned = PlanTrigger(other);
    TriggerPlan plan = planned.ok() ? plans_.back() : TriggerPlan{};
    ShownTrigger view = planned.ok() ? shown_.back() : ShownTrigger{};
    plans_ = std::move(plans);
    shown_ = std::move(shown);
    RETURN_IF_ERROR(planned);
    plan.config.trigger = static_cast<uint32_t>(index);
    plan.config.flags |= plans_[index].config.flags & BRINK_SNAP_CFG_SNAPSHOT;
    plans_[index] = plan;
    shown_[index] = view;
    shown_[index].trigger.text = plans_[index].trigger.text;
    object = TriggerObject::Load(plans_[index], share, maps_);
    fallbacks_[index] = notes_.back();
    if (!object.ok()) return Annotate(object.status(), fallbacks_[index]);
  }
  RETURN_IF_ERROR(object.status());
  objects_.push_back(*std::move(object));
  return OkStatus();
}

Status SnapSource::Load(SourceContext& context) {
  auto share = [&](bpf_object* object) { return context.Share(object); };
  SideObject::Options side = {.history = request_.history, .irqs = request_.history_irqs};
  side.config.flags = plans_[0].config.flags & BRINK_SNAP_CFG_V1;
  side.config.subsys = plans_[0].config.subsys;
  ASSIGN_OR_RETURN(side_, SideObject::Load(share, maps_, side));
  for (size_t i = 0; i < plans_.size(); ++i) {
    // User probes of one process only: others do not even see them.
    if (request_.pid > 0) plans_[i].pid = request_.pid;
    RETURN_IF_ERROR(LoadTrigger(i, context));
  }
  if (request_.groups.wants() || request_.groups.excludes()) RETURN_IF_ERROR(FillGroups(maps_.groups_fd()));
  if (!branch_flags_) return OkStatus();
  ASSIGN_OR_RETURN(held_, HeldEvents::Open(branch_flags_));
  return OkStatus();
}

// Groups as they are now. Names that answer to nothing yet are looked for again each second: a container may come later.
Status SnapSource::FillGroups(int fd) {
  const GroupRequest& request = request_.groups;
  auto put = [&](const std::vector<CgroupFolder>& folders, uint32_t what) -> Status {
    for (const CgroupFolder& folder : folders) {
      if (bpf_map_update_elem(fd, &folder.id, &what, BPF_ANY) != 0) return ErrnoError(errno, "fill the cgroup filter");
    }
    return OkStatus();
  };
  auto by_name = [&](const std::vector<std::string>& words, bool pod, uint32_t what) -> Status {
    for (const std::string& word : words) {
      auto found = resolver_->Find(word, pod);
      if (found.ok()) {
        RETURN_IF_ERROR(put(*found, what));
      } else if (next_group_look_ns_ == 0) {
        notes_.push_back(Message(found.status()) + "; waiting for it");
      }
    }
    return OkStatus();
  };
  auto by_path = [&](const std::vector<std::string>& paths, uint32_t what) -> Status {
    for (std::string path : paths) {
      if (path.starts_with(hierarchy_.mount + "/")) path.erase(0, hierarchy_.mount.size());
      if (!path.starts_with('/')) path.insert(0, "/");
      auto id = CgroupIdOf(hierarchy_, path);
      if (!id.ok()) return Annotate(id.status(), "--cgroup (hierarchy " + hierarchy_.Name() + ")");
      RETURN_IF_ERROR(put({{*id, path}}, what));
    }
    return OkStatus();
  };
  RETURN_IF_ERROR(by_name(request.containers, false, BRINK_SNAP_GROUP_WANTED));
  RETURN_IF_ERROR(by_name(request.pods, true, BRINK_SNAP_GROUP_WANTED));
  RETURN_IF_ERROR(by_name(request.not_containers, false, BRINK_SNAP_GROUP_EXCLUDED));
  RETURN_IF_ERROR(by_name(request.not_pods, true, BRINK_SNAP_GROUP_EXCLUDED));
  RETURN_IF_ERROR(by_path(request.cgroups, BRINK_SNAP_GROUP_WANTED));
  return by_path(request.not_cgroups, BRINK_SNAP_GROUP_EXCLUDED);
}

Status SnapSource::Start(SourceContext& /*context*/) {
  RETURN_IF_ERROR(side_->Attach());
  for (size_t i = 0; i < objects_.size(); ++i) {
    Status attached = objects_[i]->Attach();
    if (!attached.ok()) return fallbacks_[i].empty() ? attached : Annotate(attached, fallbacks_[i]);
  }
  for (auto& object : objects_) {
    if (!object->how().empty()) notes_.push_back(object->how());
  }
  if (!branch_flags_) return OkStatus();
  // Trampolines and programs exist only now.
  auto code = KernelCode::Read();
  if (!code.ok()) return OkStatus();
  code_ = *std::move(code);
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (!paths_[i]) continue;
    auto hooked = plans_[i].functions.size() == 1 ? code_->FindFunction(plans_[i].functions[0]) : std::nullopt;
    paths_[i] = paths_[i]->For(objects_[i]->ProgramRangesOf(), hooked);
  }
  return OkStatus();
}

void SnapSource::OnRecord(std::span<const std::byte> record) {
  brink_snap_group group = {};
  if (record.size() <= offsetof(brink_snap_group, path) || record.size() > sizeof(group)) return;
  std::memcpy(&group, record.data(), record.size());
  if (group.header.type != BRINK_REC_SNAP_GROUP) return;
  // A name that is waited for may be this one: looked for at the next tick.
  next_group_look_ns_ = std::min<uint64_t>(next_group_look_ns_, 1);
  MutexLock lock(new_groups_mutex_);
  // Nobody takes them where nothing is printed.
  if (new_groups_.size() < ContainerResolver::kMaxCached) new_groups_.emplace_back(group.id, std::string(group.path, strnlen(group.path, sizeof(group.path))));
}

std::vector<std::pair<uint64_t, std::string>> SnapSource::TakeNewGroups() {
  MutexLock lock(new_groups_mutex_);
  return std::exchange(new_groups_, {});
}

void SnapSource::OnTick(uint64_t now_ns) {
  if (now_ns < next_group_look_ns_) return;
  next_group_look_ns_ = now_ns + kGroupLookNs;
  if (held_) (void)held_->Refresh();
  if (!request_.groups.containers.empty() || !request_.groups.pods.empty() || !request_.groups.not_containers.empty() || !request_.groups.not_pods.empty()) {
    (void)FillGroups(maps_.groups_fd());
  }
}

void SnapSource::Stop() {
  for (auto& object : objects_) object->Detach();
  if (side_) side_->Detach();
  held_.reset();
}

void SnapSource::Pause(bool paused) {
  for (auto& object : objects_) object->Pause(paused);
}

Status SnapSource::Fire() {
  bool fired = false;
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (plans_[i].trigger.kind != TriggerKind::kManual) continue;
    fired = true;
    RETURN_IF_ERROR(objects_[i]->Fire());
  }
  return fired ? OkStatus() : FailedPrecondition("no manual trigger");
}

std::span<const BranchEntry> SnapSource::Trim(uint32_t trigger, std::span<const BranchEntry> entries) const {
  const bool both = (branch_flags_ & (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL)) == (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL);
  entries = entries.first(TrustedLength(entries, both));
  if (trigger >= paths_.size() || !paths_[trigger] || !code_) return entries;
  return entries.subspan(paths_[trigger]->Burnt(entries, code_->Lookup()));
}

std::vector<StatLine> SnapSource::Report() {
  constexpr const char* kNames[] = {"hits", "if_false", "if_unknown", "too_fast", "no_entry", "not_nth", "repeated", "limited", "after_count", "no_slot", "captured", "keys"};
  constexpr const char* kTexts[] = {"hits", "--if false", "--if unknown", "faster than asked", "entry not seen", "skipped by --nth", "repeated (--once-per)", "above --limit", "after --count", "no free slot", "captured", "keys"};
  std::vector<StatLine> lines;
  for (size_t i = 0; i < objects_.size(); ++i) {
    SnapCounts counts = objects_[i]->ReadCounts();
    std::string text;
    for (size_t j = 0; j < std::size(kNames); ++j) {
      lines.push_back({"trigger_" + std::to_string(i) + "_" + kNames[j], static_cast<double>(counts[j]), ""});
      if (j == BRINK_SNAP_CNT_KEYS) continue;
      if (counts[j] || j == BRINK_SNAP_CNT_HITS) text += absl::StrFormat("%s%d %s", text.empty() ? "" : ", ", counts[j], kTexts[j]);
    }
    if (counts[BRINK_SNAP_CNT_KEYS] > BRINK_SNAP_MAX_SEEN) text += absl::StrFormat(", %d keys forgotten (of --once-per %d are remembered)", counts[BRINK_SNAP_CNT_KEYS] - BRINK_SNAP_MAX_SEEN, BRINK_SNAP_MAX_SEEN);
    lines.push_back({"trigger_" + std::to_string(i), static_cast<double>(counts[BRINK_SNAP_CNT_TAKEN]), shown_[i].trigger.text + ": " + text});
  }
  return lines;
}

}  // namespace brink::snap
