#include "snapshot/calibrate.h"

#include <cerrno>
#include <memory>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "brink/abi/snapshot.h"
#include "kernel/perf_event.h"
#include "snapshot/held_events.h"
#include "snapshot_cal.skel.h"

namespace brink {
namespace {

constexpr int kFires = 16;

struct SkeletonCloser {
  void operator()(snapshot_cal_bpf* skeleton) const { snapshot_cal_bpf__destroy(skeleton); }
};
struct LinkCloser {
  void operator()(bpf_link* link) const { bpf_link__destroy(link); }
};
using Link = std::unique_ptr<bpf_link, LinkCloser>;

const char* Getppid() {
#if defined(__x86_64__)
  return "__x64_sys_getppid";
#else
  return "__arm64_sys_getppid";
#endif
}

bpf_program* ProgramOf(HookKind kind, snapshot_cal_bpf* skeleton) {
  switch (kind) {
    case HookKind::kRawTp: return skeleton->progs.cal_raw_tp;
    case HookKind::kTpBtf: return skeleton->progs.cal_tp_btf;
    case HookKind::kTracepoint: return skeleton->progs.cal_tracepoint;
    case HookKind::kKprobe: return skeleton->progs.cal_kprobe;
    case HookKind::kKprobeMulti: return skeleton->progs.cal_kprobe_multi;
    case HookKind::kFentry: return skeleton->progs.cal_fentry;
    case HookKind::kFexit: return skeleton->progs.cal_fexit;
    case HookKind::kPerfEvent: return skeleton->progs.cal_perf_event;
  }
  return nullptr;
}

StatusOr<Link> AttachEvent(bpf_program* program, const char* name, uint64_t period) {
  ASSIGN_OR_RETURN(EventSpec event, ParseEvent(name));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenPerfEvent(MakeAttr(event, {.period = period, .disabled = false}), {.pid = 0}, name));
  Link link(bpf_program__attach_perf_event(program, fd.get()));
  if (!link) return ErrnoError(errno, name);
  fd.Release();  // the link's now
  return link;
}

StatusOr<Link> Attach(HookKind kind, bpf_program* program) {
  if (kind == HookKind::kTracepoint) return AttachEvent(program, "syscalls:sys_enter_getppid", 1);
  if (kind == HookKind::kPerfEvent) return AttachEvent(program, "cpu-clock", 200'000);
  Link link;
  if (kind == HookKind::kKprobe) {
    link.reset(bpf_program__attach_kprobe(program, false, Getppid()));
  } else if (kind == HookKind::kKprobeMulti) {
    const char* symbols[] = {Getppid()};
    LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = symbols, .cnt = 1);
    link.reset(bpf_program__attach_kprobe_multi_opts(program, nullptr, &options));
  } else {
    link.reset(bpf_program__attach(program));
  }
  if (!link) return ErrnoError(errno, std::string("attach a ") + std::string(HookKindName(kind)));
  return link;
}

// User branches between two captures: a stack then holds one capture and the way to it.
__attribute__((noinline)) void ManyUserBranches() {
  for (int i = 0; i < 200; ++i) asm volatile("" : "+r"(i));
}

void Fire(HookKind kind, int program_fd) {
  for (int i = 0; i < kFires; ++i) {
    ManyUserBranches();
    if (kind == HookKind::kFentry || kind == HookKind::kFexit) {
      // BPF_PROG_TEST_RUN of such a program calls bpf_fentry_test1.
      LIBBPF_OPTS(bpf_test_run_opts, run);
      bpf_prog_test_run_opts(program_fd, &run);
    } else if (kind == HookKind::kPerfEvent) {
      for (int j = 0; j < 2000; ++j) ManyUserBranches();
    } else {
      ::syscall(SYS_getppid);
    }
  }
}

// The program's map value (bpf/snapshot_cal.bpf.c).
struct CalRun {
  int64_t nr;
  brink_branch entries[BRINK_MAX_HW_BRANCHES];
};

StatusOr<std::vector<std::vector<BranchEntry>>> ReadRuns(snapshot_cal_bpf* skeleton, bool both) {
  std::vector<std::vector<BranchEntry>> runs;
  int map = bpf_map__fd(skeleton->maps.cal_runs);
  for (uint32_t i = 0; i < std::min(skeleton->bss->cal_count, bpf_map__max_entries(skeleton->maps.cal_runs)); ++i) {
    CalRun run = {};
    if (int error = bpf_map_lookup_elem(map, &i, &run); error != 0) return ErrnoError(-error, "read a calibration run");
    if (run.nr == -ENOENT) return NotFound("the kernel has no branch snapshot for this CPU");
    if (run.nr <= 0) continue;
    std::vector<BranchEntry> stack(static_cast<size_t>(std::min<int64_t>(run.nr, BRINK_MAX_HW_BRANCHES)));
    for (size_t j = 0; j < stack.size(); ++j) static_cast<brink_branch&>(stack[j]) = run.entries[j];
    stack.resize(TrustedLength(stack, both));
    runs.push_back(std::move(stack));
  }
  return runs;
}

}  // namespace

std::string_view HookKindName(HookKind kind) {
  constexpr std::string_view kNames[] = {"raw_tp", "tp_btf", "tracepoint", "kprobe", "kprobe_multi", "fentry", "fexit", "perf_event"};
  return kNames[static_cast<size_t>(kind)];
}

StatusOr<Calibration> Calibrate(HookKind kind) {
  std::unique_ptr<snapshot_cal_bpf, SkeletonCloser> skeleton(snapshot_cal_bpf__open());
  if (!skeleton) return ErrnoError(errno, "open the calibration program");
  bpf_program* program = ProgramOf(kind, skeleton.get());
  bpf_program__set_autoload(program, true);
  skeleton->rodata->cal_tgid = static_cast<uint32_t>(::getpid());
  if (int error = snapshot_cal_bpf__load(skeleton.get()); error != 0) {
    return ErrnoError(-error, std::string("load the calibration program for ") + std::string(HookKindName(kind)));
  }
  ASSIGN_OR_RETURN(HeldEvents held, HeldEvents::Open(HeldFlags(TriggerSide::kBoth)));
  ASSIGN_OR_RETURN(Link link, Attach(kind, program));
  // Trampolines exist only now.
  ASSIGN_OR_RETURN(KernelCode code, KernelCode::Read());
  ASSIGN_OR_RETURN(std::vector<CodeRange> own, ProgramRanges(bpf_program__fd(program)));
  Fire(kind, bpf_program__fd(program));
  link.reset();
  ASSIGN_OR_RETURN(auto runs, ReadRuns(skeleton.get(), held.both_privileges()));
  if (runs.empty()) return NotFound(std::string("no snapshot came of a ") + std::string(HookKindName(kind)));

  Calibration result;
  result.kind = kind;
  result.path = CapturePath::Learn(runs, code.Lookup(), own);
  result.runs = static_cast<int>(runs.size());
  result.burnt_least = BRINK_MAX_HW_BRANCHES;
  for (const auto& run : runs) {
    int burnt = static_cast<int>(result.path.Burnt(run, code.Lookup()));
    result.burnt_least = std::min(result.burnt_least, burnt);
    result.burnt_most = std::max(result.burnt_most, burnt);
    result.depth = std::max(result.depth, static_cast<int>(run.size()));
  }
  result.stacks = std::move(runs);
  return result;
}

}  // namespace brink
