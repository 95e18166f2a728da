// BPF program types in the kernel: load, attach, fire in this process.
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/strings.h"
#include "probe/bpf_trial.h"

namespace brink::probe {
namespace {

Finding NoKprobes(const TrialError& error) {
  if (std::string_view(error.stage) != "attach") return {};
  if (::access("/sys/bus/event_source/devices/kprobe/type", F_OK) != 0) {
    return Finding::Off("this kernel is built without kprobes", "use a raw tracepoint, a tracepoint or a uprobe as trigger");
  }
  return {};
}

Finding RefusedTrampoline(const TrialError& error) {
  if (error.error == EPERM) {
    return Finding::Off("the kernel refuses trampoline programs (EPERM, although the capabilities are held)",
                        "use a raw tracepoint, a tracepoint or a uprobe as trigger");
  }
  return {};
}

// Trampoline programs on bpf_fentry_test1, which BPF_PROG_TEST_RUN of such a program calls.
Finding ProbeTrampoline(Prober& prober, const char* name) {
  if (!prober.Has(Feature::kBtf)) return OffBecauseOf(prober, Feature::kBtf);
  int fd = -1;
  Trial trial;
  trial.program = name;
  trial.attach = [&](bpf_program* program) {
    fd = bpf_program__fd(program);
    return AttachSelf(program);
  };
  trial.trigger = [&] {
    LIBBPF_OPTS(bpf_test_run_opts, run);
    bpf_prog_test_run_opts(fd, &run);
  };
  return FindingOf(prober, RunTrial(trial), RefusedTrampoline);
}

}  // namespace

Finding ProbeBpfPerfEvent(Prober& prober) {
  if (!prober.Has(Feature::kPerfClock)) return OffBecauseOf(prober, Feature::kPerfClock);
  return FindingOf(prober, RunTrial({.program = "on_perf_event", .attach = AttachClock, .trigger = [] { BurnCpu(15); }}));
}

Finding ProbeBpfRawTp(Prober& prober) {
  return FindingOf(prober, RunTrial({.program = "on_raw_tp", .attach = AttachSelf, .trigger = CallGetppid}));
}

Finding ProbeBpfTpBtf(Prober& prober) {
  if (!prober.Has(Feature::kBtf)) return OffBecauseOf(prober, Feature::kBtf);
  return FindingOf(prober, RunTrial({.program = "on_tp_btf", .attach = AttachSelf, .trigger = CallGetppid}));
}

Finding ProbeBpfTracepoint(Prober& prober) {
  const Finding& tracefs = prober.Get(Feature::kTracefs);
  if (!tracefs.on) return Finding::Off("the tracepoint's id is not readable: " + tracefs.reason, tracefs.remedy);
  auto event = ParseEvent("syscalls:sys_enter_getppid");
  if (!event.ok()) event = ParseEvent("raw_syscalls:sys_enter");
  if (!event.ok()) return OffFrom(event.status());
  auto attach = [&](bpf_program* program) -> StatusOr<Attached> {
    Attached attached;
    ASSIGN_OR_RETURN(attached.fd, OpenPerfEvent(MakeAttr(*event, {.period = 1, .disabled = false}), {.pid = 0}, event->name));
    attached.link.reset(bpf_program__attach_perf_event(program, attached.fd.get()));
    if (!attached.link) return ErrnoError(errno, event->name);
    attached.fd.Release();
    return attached;
  };
  return FindingOf(prober, RunTrial({.program = "on_tracepoint", .attach = attach, .trigger = CallGetppid}));
}

Finding ProbeBpfKprobe(Prober& prober) {
  auto attach = [](bpf_program* program) -> StatusOr<Attached> {
    Attached attached;
    attached.link.reset(bpf_program__attach_kprobe(program, false, GetppidSymbol()));
    if (!attached.link) return ErrnoError(errno, GetppidSymbol());
    return attached;
  };
  return FindingOf(prober, RunTrial({.program = "on_kprobe", .attach = attach, .trigger = CallGetppid}), NoKprobes);
}

Finding ProbeBpfKprobeMulti(Prober& prober) {
  auto attach = [](bpf_program* program) -> StatusOr<Attached> {
    const char* symbols[] = {GetppidSymbol()};
    LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = symbols, .cnt = 1);
    Attached attached;
    attached.link.reset(bpf_program__attach_kprobe_multi_opts(program, nullptr, &options));
    if (!attached.link) return ErrnoError(errno, GetppidSymbol());
    return attached;
  };
  auto cause = [](const TrialError& error) {
    if (error.error == EOPNOTSUPP) return Finding::Off("this kernel is built without fprobe", "single kprobes are used instead, at most 64");
    return NoKprobes(error);
  };
  return FindingOf(prober, RunTrial({.program = "on_kprobe_multi", .attach = attach, .trigger = CallGetppid}), cause);
}

Finding ProbeBpfFentry(Prober& prober) { return ProbeTrampoline(prober, "on_fentry"); }
Finding ProbeBpfFexit(Prober& prober) { return ProbeTrampoline(prober, "on_fexit"); }

Finding ProbeBpfLsm(Prober& prober) {
  if (!prober.Has(Feature::kBtf)) return OffBecauseOf(prober, Feature::kBtf);
  auto open_file = [] {
    for (int i = 0; i < 4; ++i) UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  };
  TrialResult result = RunTrial({.program = "on_lsm", .attach = AttachSelf, .trigger = open_file});
  if (!result.failed && !result.out.fired) {
    return Finding::Off("attaches, but the BPF security module is not in force", "boot with lsm=...,bpf");
  }
  return FindingOf(prober, result, [](const TrialError& error) {
    if (error.error == EOPNOTSUPP || error.error == EINVAL) return Finding::Off("this kernel is built without BPF security hooks (CONFIG_BPF_LSM)");
    return RefusedTrampoline(error);
  });
}

}  // namespace brink::probe
