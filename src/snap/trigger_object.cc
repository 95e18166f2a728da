#include "snap/trigger_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "brink/abi/session.h"
#include "brink/abi/snapshot.h"
#include "kernel/perf_event.h"
#include "kernel/tracefs.h"
#include "session/core.h"
#include "session/sampling.h"
#include "snap.skel.h"
#include "snap/kernel_probe_error.h"
#include "snapshot/kernel_code.h"
#include "snapshot/prime.h"

namespace brink::snap {
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
      if (plan_.config.flags & BRINK_SNAP_CFG_LEFT) leaves_ = p.snap_leaves;
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
  if (leaves_) programs.push_back(leaves_);
  return programs;
}

Status TriggerObject::Open(const Share& share, SharedMaps& maps) {
  skeleton_ = snap_bpf__open();
  if (!skeleton_) return BpfLoadError(errno, "open the programs of " + plan_.trigger.text);
  RETURN_IF_ERROR(share(skeleton_->obj));
  RETURN_IF_ERROR(maps.Reuse(skeleton_->obj));
  if (plan_.needs_entry) plan_.config.flags |= BRINK_SNAP_CFG_ENTRY;
  if (!plan_.program.empty()) {
    ASSIGN_OR_RETURN(program_, OpenFile(plan_.program, O_RDONLY));
  }
  RETURN_IF_ERROR(SetRodata(skeleton_->obj, "snap_cfg", &plan_.config, sizeof(plan_.config)));
  RETURN_IF_ERROR(SetRodata(skeleton_->obj, "snap_result_offset", &plan_.result_offset, sizeof(plan_.result_offset)));
  const bool fentry = plan_.trigger.kind == TriggerKind::kFentry || plan_.trigger.kind == TriggerKind::kFexit;
  const bool user = plan_.trigger.kind == TriggerKind::kUprobe || plan_.trigger.kind == TriggerKind::kUretprobe || plan_.trigger.kind == TriggerKind::kUsdt;
  // Only a signal's delivery looks for the branches from where it was made.
  if (plan_.trigger.kind != TriggerKind::kSignal) bpf_map__set_autocreate(skeleton_->maps.snap_made, false);
  if (!(plan_.config.flags & BRINK_SNAP_CFG_LEFT)) bpf_map__set_max_entries(skeleton_->maps.snap_left, 1);
  const bool snapshots = plan_.config.flags & BRINK_SNAP_CFG_SNAPSHOT;
  bpf_program__set_autoload(skeleton_->progs.snap_prime, snapshots);
  for (bpf_program* program : Programs()) {
    bpf_program__set_autoload(program, true);
    if (multi_ && user) bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(kTraceUprobeMulti));
    if (!fentry) continue;
    int error = bpf_program__set_attach_target(program, 0, plan_.functions[0].c_str());
    if (error) return KernelProbeError(-error, std::string(TriggerKindName(plan_.trigger.kind)), plan_.functions[0]);
  }
  int error = snap_bpf__load(skeleton_);
  if (error) return BpfLoadError(-error, "load the program of " + plan_.trigger.text);
  if (snapshots) PrimeSnapshots(skeleton_->progs.snap_prime, OnlineCpus());
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
  InParallel(links_.size(), [this](size_t i) { bpf_link__destroy(links_[i]); });
  links_.clear();
  fds_.clear();
  member_links_.Clear();
  for (auto& [group, links] : group_links_) {
    for (bpf_link* link : links) bpf_link__destroy(link);
  }
  group_links_.clear();
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
      for (bpf_program* beside : {entry_, leaves_}) {
        if (beside) RETURN_IF_ERROR(Keep(bpf_program__attach(beside), trigger.text));
      }
      return Keep(bpf_program__attach(main_), trigger.text);
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: return AttachKernel();
    case TriggerKind::kUprobe: case TriggerKind::kUretprobe: case TriggerKind::kUsdt: return AttachUser();
    case TriggerKind::kWatch: case TriggerKind::kSample: case TriggerKind::kPerf: return AttachEvents();
    case TriggerKind::kManual: return OkStatus();
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

}  // namespace brink::snap
