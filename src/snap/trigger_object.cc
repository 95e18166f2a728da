#include "snap/trigger_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/hw_breakpoint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/strings.h"
#include "base/thread.h"
#include "brink/abi/session.h"
#include "brink/abi/snapshot.h"
#include "kernel/perf_event.h"
#include "kernel/tracefs.h"
#include "session/core.h"
#include "session/sampling.h"
#include "snap.skel.h"
#include "snapshot/kernel_code.h"
#include "symbol/kallsyms.h"

namespace brink::snap {
namespace {

// BPF_LINK_CREATE for uprobe_multi by hand: libbpf 1.1 and its headers do not know it. The kernel's layout.
struct CreateUprobeMulti {
  uint32_t prog_fd, target_fd, attach_type, flags;
  uint64_t path, offsets, ref_ctr_offsets, cookies;
  uint32_t cnt, multi_flags, pid, pad;
};
static_assert(sizeof(CreateUprobeMulti) == 64 && offsetof(CreateUprobeMulti, cnt) == 48);
constexpr int kTraceUprobeMulti = 48;
constexpr uint32_t kUprobeMultiReturn = 1;
// The kernel's ENOTSUPP, which no header of user space has.
constexpr int kErrorNotSupported = 524;

constexpr const char* kSharedMaps[] = {"snap_groups", "snap_cpu_events", "snap_task_events", "snap_next"};

std::string NearestKernelFunctions(const std::string& name) {
  auto text = ReadFile("/proc/kallsyms");
  auto symbols = text.ok() ? symbol::ParseKallsyms(*text) : StatusOr<symbol::Kallsyms>(text.status());
  if (!symbols.ok()) return "";
  std::vector<std::string> names;
  bool there = false;
  for (const symbol::KernelSymbol& symbol : symbols->symbols) {
    names.push_back(symbol.name);
    there = there || symbol.name == name;
  }
  if (there) return ": it is there, but may not be probed (noinstr, __kprobes or built without a trace entry)";
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text_out;
  for (const std::string& near : NearestNames(name, names)) text_out += (text_out.empty() ? "; nearest: " : ", ") + near;
  return " (inlined, or not in this kernel)" + text_out;
}

Status KernelProbeError(int error, const std::string& kind, const std::string& function) {
  if (error == ENOENT || error == EINVAL || error == ESRCH) return NotFound(kind + ": no kernel function '" + EscapeForTerminal(function) + "'" + NearestKernelFunctions(function));
  if (error == EOPNOTSUPP) return Unimplemented(kind + ": this kernel is built without kprobes; use a raw tracepoint, a tracepoint or a uprobe");
  return ErrnoError(error, kind + " at " + function);
}

}  // namespace

Status SharedMaps::Reuse(bpf_object* object) {
  if (!first_) return OkStatus();
  for (const char* name : kSharedMaps) {
    bpf_map* theirs = bpf_object__find_map_by_name(object, name);
    bpf_map* ours = bpf_object__find_map_by_name(first_, name);
    if (!theirs || !ours) continue;
    int error = bpf_map__reuse_fd(theirs, bpf_map__fd(ours));
    if (error) return ErrnoError(-error, std::string("share the map ") + name);
  }
  return OkStatus();
}

void SharedMaps::Offer(bpf_object* object) {
  if (!first_) first_ = object;
}

int SharedMaps::groups_fd() const {
  bpf_map* map = first_ ? bpf_object__find_map_by_name(first_, "snap_groups") : nullptr;
  return map ? bpf_map__fd(map) : -1;
}

StatusOr<std::unique_ptr<TriggerObject>> TriggerObject::Load(const TriggerPlan& plan, const Share& share, SharedMaps& maps) {
  const TriggerKind kind = plan.trigger.kind;
  const bool user = kind == TriggerKind::kUprobe || kind == TriggerKind::kUretprobe || kind == TriggerKind::kUsdt;
  const bool kernel = kind == TriggerKind::kKprobe || kind == TriggerKind::kKretprobe;
  // The multi forms first: they come and go at once. What the kernel refuses is tried one by one.
  for (bool multi : {true, false}) {
    if (multi && !user && !(kernel && plan.functions.size() > 1)) continue;
    std::unique_ptr<TriggerObject> object(new TriggerObject);
    object->plan_ = plan;
    object->multi_ = multi;
    Status opened = object->Open(share, maps);
    if (!opened.ok() && multi) continue;
    RETURN_IF_ERROR(opened);
    if (multi) {
      // Whether links can be had is known only by making one.
      Status attached = object->Attach();
      object->Detach();
      if (ErrnoOf(attached) == EINVAL || ErrnoOf(attached) == EOPNOTSUPP || ErrnoOf(attached) == EPERM) continue;
      RETURN_IF_ERROR(attached);
    }
    maps.Offer(object->skeleton_->obj);
    return object;
  }
  return Internal("no form of the trigger was tried");
}

std::vector<bpf_program*> TriggerObject::Programs() {
  auto& p = skeleton_->progs;
  auto choose = [&](bpf_program* main, bpf_program* entry = nullptr) {
    main_ = main;
    entry_ = plan_.needs_entry ? entry : nullptr;
  };
  switch (plan_.trigger.kind) {
    case TriggerKind::kTracepoint: choose(p.snap_tracepoint); break;
    case TriggerKind::kRawTracepoint: case TriggerKind::kExec: case TriggerKind::kOom: choose(p.snap_raw_tracepoint); break;
    case TriggerKind::kExit: choose(p.snap_exit); break;
    case TriggerKind::kSyscallEnter: choose(p.snap_sys_enter); break;
    case TriggerKind::kSyscallExit: choose(p.snap_sys_exit, p.snap_sys_entry); break;
    case TriggerKind::kSignal:
      choose(p.snap_signal_deliver);
      if (plan_.config.flags & BRINK_SNAP_CFG_SNAPSHOT) entry_ = p.snap_signal_made;
      break;
    case TriggerKind::kSignalSent: choose(p.snap_signal_sent); break;
    case TriggerKind::kKprobe: choose(multi_ ? p.snap_kmulti : p.snap_kprobe); break;
    case TriggerKind::kKretprobe: choose(multi_ ? p.snap_kretmulti : p.snap_kretprobe, multi_ ? p.snap_kmulti_entry : p.snap_kentry); break;
    case TriggerKind::kFentry: choose(p.snap_fentry); break;
    case TriggerKind::kFexit: choose(p.snap_fexit, p.snap_fentry_entry); break;
    case TriggerKind::kUprobe: case TriggerKind::kUsdt: choose(p.snap_uprobe); break;
    case TriggerKind::kUretprobe: choose(p.snap_uretprobe, p.snap_uentry); break;
    case TriggerKind::kWatch: case TriggerKind::kSample: case TriggerKind::kPerf: choose(p.snap_perf); break;
    case TriggerKind::kManual: choose(p.snap_manual); break;
  }
  std::vector<bpf_program*> programs = {main_};
  if (entry_) programs.push_back(entry_);
  return programs;
}

Status TriggerObject::Open(const Share& share, SharedMaps& maps) {
  skeleton_ = snap_bpf__open();
  if (!skeleton_) return BpfLoadError(errno, "open the programs of " + plan_.trigger.text);
  RETURN_IF_ERROR(share(skeleton_->obj));
  RETURN_IF_ERROR(maps.Reuse(skeleton_->obj));
  if (plan_.needs_entry) plan_.config.flags |= BRINK_SNAP_CFG_ENTRY;
  RETURN_IF_ERROR(SetRodata(skeleton_->obj, "snap_cfg", &plan_.config, sizeof(plan_.config)));
  RETURN_IF_ERROR(SetRodata(skeleton_->obj, "snap_result_offset", &plan_.result_offset, sizeof(plan_.result_offset)));
  const bool fentry = plan_.trigger.kind == TriggerKind::kFentry || plan_.trigger.kind == TriggerKind::kFexit;
  const bool user = plan_.trigger.kind == TriggerKind::kUprobe || plan_.trigger.kind == TriggerKind::kUretprobe || plan_.trigger.kind == TriggerKind::kUsdt;
  if (plan_.trigger.kind != TriggerKind::kSignal) bpf_map__set_max_entries(skeleton_->maps.snap_made, 1);
  for (bpf_program* program : Programs()) {
    bpf_program__set_autoload(program, true);
    if (multi_ && user) bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kTraceUprobeMulti));
    if (!fentry) continue;
    int error = bpf_program__set_attach_target(program, 0, plan_.functions[0].c_str());
    if (error) return KernelProbeError(-error, std::string(TriggerKindName(plan_.trigger.kind)), plan_.functions[0]);
  }
  int error = snap_bpf__load(skeleton_);
  if (error) return BpfLoadError(-error, "load the program of " + plan_.trigger.text);
  return OkStatus();
}

const char* TriggerObject::FollowerName() const {
  if (!(plan_.config.flags & BRINK_SNAP_CFG_FOLLOW)) return nullptr;
  switch (plan_.trigger.kind) {
    case TriggerKind::kTracepoint: return "snap_follow_tracepoint";
    case TriggerKind::kRawTracepoint: case TriggerKind::kExec: case TriggerKind::kOom: case TriggerKind::kSyscallEnter: case TriggerKind::kSyscallExit:
    case TriggerKind::kSignal: case TriggerKind::kSignalSent: return "snap_follow_raw";
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: return multi_ ? "snap_follow_kmulti" : "snap_follow_kprobe";
    case TriggerKind::kUprobe: case TriggerKind::kUretprobe: case TriggerKind::kUsdt: return multi_ ? "snap_follow_umulti" : "snap_follow_kprobe";
    case TriggerKind::kWatch: case TriggerKind::kSample: case TriggerKind::kPerf: return "snap_follow_perf";
    case TriggerKind::kExit: case TriggerKind::kFentry: case TriggerKind::kFexit: case TriggerKind::kManual: return nullptr;
  }
  return nullptr;
}

Status TriggerObject::Follow(const bpf_object* follower) {
  const char* name = FollowerName();
  if (!name) return OkStatus();
  const bpf_program* program = bpf_object__find_program_by_name(follower, name);
  if (!program) return Internal(std::string("no program ") + name);
  const uint32_t zero = 0;
  const int fd = bpf_program__fd(program);
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.snap_follower), &zero, &fd, BPF_ANY) != 0) return ErrnoError(errno, "hand captures of " + plan_.trigger.text + " over to the walker");
  return OkStatus();
}

TriggerObject::~TriggerObject() {
  Detach();
  snap_bpf__destroy(skeleton_);
}

void TriggerObject::Detach() {
  constexpr size_t kThreads = 8;
  if (links_.size() > 2 * kThreads) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      auto part = [this, i] {
        for (size_t j = i; j < links_.size(); j += kThreads) bpf_link__destroy(links_[j]);
      };
      auto thread = StartThread("a thread that detaches", part);
      if (thread.ok()) threads.push_back(*std::move(thread));
      else part();
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (bpf_link* link : links_) bpf_link__destroy(link);
  }
  links_.clear();
  fds_.clear();
}

Status TriggerObject::Keep(bpf_link* link, const std::string& what) {
  if (!link) {
    int error = errno;
    (void)TakeLibbpfMessage();
    return ErrnoError(error, what);
  }
  links_.push_back(link);
  return OkStatus();
}

Status TriggerObject::Attach() {
  const Trigger& trigger = plan_.trigger;
  switch (trigger.kind) {
    case TriggerKind::kTracepoint: {
      if (access((TracefsRoot() + "/events/" + trigger.category + "/" + trigger.name).c_str(), F_OK) != 0) return NotFound("no tracepoint " + trigger.category + ":" + trigger.name);
      ASSIGN_OR_RETURN(EventSpec event, ParseEvent(trigger.category + ":" + trigger.name));
      for (int cpu : OnlineCpus()) {
        // One descriptor serves all CPUs: the program runs for everybody.
        ASSIGN_OR_RETURN(UniqueFd fd, OpenPerfEvent(MakeAttr(event, {.period = 1, .disabled = false}), {.pid = -1, .cpu = cpu}, trigger.text));
        bpf_link* link = bpf_program__attach_perf_event(main_, fd.get());
        if (link) fd.Release();
        return Keep(link, trigger.text);
      }
      return Internal("no CPU is online");
    }
    case TriggerKind::kRawTracepoint: case TriggerKind::kExec: case TriggerKind::kOom: {
      std::string name = trigger.kind == TriggerKind::kExec ? "sched_process_exec" : trigger.kind == TriggerKind::kOom ? "mark_victim" : trigger.name;
      return Keep(bpf_program__attach_raw_tracepoint(main_, name.c_str()), "raw tracepoint " + name);
    }
    case TriggerKind::kExit: case TriggerKind::kSyscallEnter: case TriggerKind::kSignal: case TriggerKind::kSignalSent: case TriggerKind::kSyscallExit:
    case TriggerKind::kFentry: case TriggerKind::kFexit:
      if (entry_) RETURN_IF_ERROR(Keep(bpf_program__attach(entry_), trigger.text));
      return Keep(bpf_program__attach(main_), trigger.text);
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: return AttachKernel();
    case TriggerKind::kUprobe: case TriggerKind::kUretprobe: case TriggerKind::kUsdt: return AttachUser();
    case TriggerKind::kWatch: case TriggerKind::kSample: case TriggerKind::kPerf: return AttachEvents();
    case TriggerKind::kManual: return OkStatus();
  }
  return OkStatus();
}

Status TriggerObject::AttachKernelMulti(bpf_program* program, bool at_return) {
  std::vector<const char*> names;
  for (const std::string& function : plan_.functions) names.push_back(function.c_str());
  LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = names.data(), .cnt = names.size(), .retprobe = at_return);
  return Keep(bpf_program__attach_kprobe_multi_opts(program, nullptr, &options), "kprobe.multi");
}

Status TriggerObject::AttachKernel() {
  const bool at_return = plan_.trigger.kind == TriggerKind::kKretprobe;
  if (multi_) {
    how_ = "kprobe.multi on " + std::to_string(plan_.functions.size()) + " functions";
    if (entry_) RETURN_IF_ERROR(AttachKernelMulti(entry_, false));
    return AttachKernelMulti(main_, at_return);
  }
  if (plan_.functions.size() > kMostSingleProbes) {
    return ResourceExhausted(std::to_string(plan_.functions.size()) + " functions match, and this kernel has no kprobe.multi: at most " + std::to_string(kMostSingleProbes) + " single kprobes are set; narrow the glob");
  }
  if (plan_.functions.size() > 1) how_ = std::to_string(plan_.functions.size()) + " single kprobes (no kprobe.multi here)";
  for (const std::string& function : plan_.functions) {
    for (bpf_program* program : {entry_, main_}) {
      if (!program) continue;
      LIBBPF_OPTS(bpf_kprobe_opts, options, .offset = plan_.trigger.offset, .retprobe = at_return && program == main_);
      bpf_link* link = bpf_program__attach_kprobe_opts(program, function.c_str(), &options);
      if (!link) {
        int error = errno;
        (void)TakeLibbpfMessage();
        return KernelProbeError(access("/sys/bus/event_source/devices/kprobe/type", F_OK) != 0 ? EOPNOTSUPP : error, std::string(TriggerKindName(plan_.trigger.kind)), function);
      }
      links_.push_back(link);
    }
  }
  return OkStatus();
}

// One place that cannot be probed fails a whole link: then the halves are tried, down to the place itself, which goes into
// `refused`.
Status TriggerObject::LinkPlaces(bpf_program* program, bool at_return, std::span<const Place> places, std::vector<uint64_t>* refused) {
  std::vector<uint64_t> offsets, counters;
  bool any_counter = false;
  for (const Place& place : places) {
    offsets.push_back(place.offset);
    counters.push_back(place.ref_ctr);
    any_counter = any_counter || place.ref_ctr;
  }
  CreateUprobeMulti create = {};
  create.prog_fd = static_cast<uint32_t>(bpf_program__fd(program));
  create.attach_type = kTraceUprobeMulti;
  create.path = reinterpret_cast<uint64_t>(plan_.program.c_str());
  create.offsets = reinterpret_cast<uint64_t>(offsets.data());
  if (any_counter) create.ref_ctr_offsets = reinterpret_cast<uint64_t>(counters.data());
  create.cnt = static_cast<uint32_t>(offsets.size());
  create.multi_flags = at_return ? kUprobeMultiReturn : 0;
  if (plan_.pid > 0) create.pid = static_cast<uint32_t>(plan_.pid);
  const long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &create, sizeof(create));
  if (fd >= 0) {
    fds_.emplace_back(static_cast<int>(fd));
    return OkStatus();
  }
  const int error = errno;
  if (error != kErrorNotSupported) return ErrnoError(error, "uprobe_multi at " + plan_.program);
  if (places.size() == 1) {
    refused->push_back(places[0].offset);
    return OkStatus();
  }
  const size_t half = places.size() / 2;
  RETURN_IF_ERROR(LinkPlaces(program, at_return, places.first(half), refused));
  return LinkPlaces(program, at_return, places.subspan(half), refused);
}

Status TriggerObject::AttachUserMulti(bpf_program* program, bool at_return) {
  std::vector<uint64_t> refused;
  RETURN_IF_ERROR(LinkPlaces(program, at_return, plan_.places, &refused));
  if (refused.empty()) return OkStatus();
  if (refused.size() == plan_.places.size()) {
    return Unimplemented("the kernel can probe none of these places of " + plan_.program + ": it does not know how to step over the instruction there; probe another place of the function (FUNC+OFF, FILE:LINE)");
  }
  // From now on one link does.
  std::erase_if(plan_.places, [&](const Place& place) { return std::find(refused.begin(), refused.end(), place.offset) != refused.end(); });
  refused_ += refused.size();
  return OkStatus();
}

Status TriggerObject::AttachUser() {
  const bool at_return = plan_.trigger.kind == TriggerKind::kUretprobe;
  if (multi_) {
    if (entry_) RETURN_IF_ERROR(AttachUserMulti(entry_, false));
    RETURN_IF_ERROR(AttachUserMulti(main_, at_return));
    if (plan_.places.size() + refused_ > 1) how_ = "uprobe_multi at " + std::to_string(plan_.places.size()) + " places";
    if (plan_.left_out) how_ += "; " + std::to_string(plan_.left_out) + " more are left out: they begin with a vector instruction that the kernel's uprobes take for another";
    if (refused_) how_ += "; " + std::to_string(refused_) + " more cannot be probed (the kernel does not know how to step over the instruction there)";
    return OkStatus();
  }
  if (plan_.places.size() > kMostSingleProbes) {
    return ResourceExhausted(std::to_string(plan_.places.size()) + " places match, and this kernel has no uprobe_multi (6.6): at most " + std::to_string(kMostSingleProbes) +
                             " single uprobes are set, because each takes 0.1 s to go; narrow the glob");
  }
  if (plan_.places.size() > 1) {
    how_ = std::to_string(plan_.places.size()) + " single uprobes (no uprobe_multi here): expect up to " + std::to_string(plan_.places.size() / 10 + 1) + " s to detach";
  }
  for (const Place& place : plan_.places) {
    for (bpf_program* program : {entry_, main_}) {
      if (!program) continue;
      LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = place.ref_ctr, .retprobe = at_return && program == main_);
      RETURN_IF_ERROR(Keep(bpf_program__attach_uprobe_opts(program, plan_.pid, plan_.program.c_str(), place.offset, &options),
                           "uprobe at " + place.name + " of " + plan_.program));
    }
  }
  return OkStatus();
}

Status TriggerObject::AttachEvents() {
  const Trigger& trigger = plan_.trigger;
  EventSpec event;
  SamplingSpec sampling = {.disabled = false};
  if (trigger.kind == TriggerKind::kSample) {
    ASSIGN_OR_RETURN(event, ParseEvent("cpu-clock"));
    sampling.period = trigger.period_ns;
  } else if (trigger.kind == TriggerKind::kPerf) {
    ASSIGN_OR_RETURN(event, ParseEvent(trigger.event));
    sampling.period = trigger.period;
  } else {
    event.type = PERF_TYPE_BREAKPOINT;
    event.name = trigger.text;
    event.config1 = trigger.address;
    event.config2 = trigger.length;
    event.bp_type = trigger.watch_mode;
    event.exclude_kernel = true;
    sampling.period = 1;
  }
  for (int cpu : OnlineCpus()) {
    auto fd = OpenPerfEvent(MakeAttr(event, sampling), {.pid = -1, .cpu = cpu}, trigger.text);
    if (!fd.ok() && trigger.kind == TriggerKind::kWatch && ErrnoOf(fd.status()) == ENOSPC) {
      return ResourceExhausted("all hardware breakpoints of CPU " + std::to_string(cpu) + " are in use (the CPU has four, shared with debuggers and hop)");
    }
    RETURN_IF_ERROR(fd.status());
    bpf_link* link = bpf_program__attach_perf_event(main_, fd->get());
    if (link) fd->Release();
    RETURN_IF_ERROR(Keep(link, trigger.text));
  }
  return OkStatus();
}

Status TriggerObject::Fire() {
  for (int cpu : OnlineCpus()) {
    LIBBPF_OPTS(bpf_test_run_opts, run, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = static_cast<uint32_t>(cpu));
    int error = bpf_prog_test_run_opts(bpf_program__fd(main_), &run);
    if (error) return ErrnoError(-error, "capture on CPU " + std::to_string(cpu));
  }
  return OkStatus();
}

void TriggerObject::Pause(bool paused) { __atomic_store_n(&skeleton_->bss->snap_paused, paused ? 1 : 0, __ATOMIC_RELAXED); }

SnapCounts TriggerObject::ReadCounts() const {
  SnapCounts sums = {};
  int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return sums;
  std::vector<uint64_t> cells(static_cast<size_t>(cpus));
  for (uint32_t i = 0; i < BRINK_SNAP_CNT_MAX; ++i) {
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.snap_counts), &i, cells.data()) != 0) continue;
    for (uint64_t cell : cells) sums[i] += cell;
  }
  sums[BRINK_SNAP_CNT_HITS] = std::accumulate(sums.begin() + 1, sums.begin() + BRINK_SNAP_CNT_KEYS, uint64_t{0});
  return sums;
}

std::vector<CodeRange> TriggerObject::ProgramRangesOf() const {
  auto ranges = ProgramRanges(bpf_program__fd(main_));
  return ranges.ok() ? *ranges : std::vector<CodeRange>{};
}

StatusOr<std::unique_ptr<SideObject>> SideObject::Load(const TriggerObject::Share& share, SharedMaps& maps, const Options& options) {
  std::unique_ptr<SideObject> object(new SideObject);
  object->skeleton_ = snap_bpf__open();
  if (!object->skeleton_) return BpfLoadError(errno, "open the programs beside the triggers");
  auto& progs = object->skeleton_->progs;
  RETURN_IF_ERROR(share(object->skeleton_->obj));
  RETURN_IF_ERROR(maps.Reuse(object->skeleton_->obj));
  RETURN_IF_ERROR(SetRodata(object->skeleton_->obj, "snap_cfg", &options.config, sizeof(options.config)));
  bpf_program__set_autoload(progs.snap_group_made, true);
  for (bpf_program* program : {progs.snap_history_switch, progs.snap_history_enter, progs.snap_history_exit, progs.snap_history_end}) {
    bpf_program__set_autoload(program, options.history);
  }
  bpf_program__set_autoload(progs.snap_history_irq, options.history && options.irqs);
  int error = snap_bpf__load(object->skeleton_);
  if (error) return BpfLoadError(-error, "load the programs beside the triggers");
  maps.Offer(object->skeleton_->obj);
  return object;
}

SideObject::~SideObject() {
  Detach();
  snap_bpf__destroy(skeleton_);
}

Status SideObject::Attach() {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) {
    if (!bpf_program__autoload(program)) continue;
    bpf_link* link = bpf_program__attach(program);
    if (!link) return ErrnoError(errno, std::string("attach ") + bpf_program__name(program));
    links_.push_back(link);
  }
  return OkStatus();
}

void SideObject::Detach() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
}

}  // namespace brink::snap
