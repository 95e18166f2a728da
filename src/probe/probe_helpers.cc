// BPF helpers, by running them.
#include <cerrno>

#include <absl/strings/str_cat.h>

#include "probe/bpf_trial.h"
#include "probe/known_loop.h"

namespace brink::probe {
namespace {

Finding UnknownHelper(const TrialError& error, const char* since) {
  if (error.error == EINVAL || error.log.find("unknown func") != error.log.npos) return Finding::Off(std::string("this kernel does not have it"), since);
  return {};
}

int SawRecord(void* context, void* data, size_t size) {
  uint64_t word = 0;
  if (size == sizeof word) std::memcpy(&word, data, sizeof word);
  if (word == BRINK_PROBE_MAGIC) ++*static_cast<int*>(context);
  return 0;
}

}  // namespace

Finding ProbeBpfRingbuf(Prober& prober) {
  int seen = 0;
  Trial trial{.program = "do_ring"};
  trial.look = [&](bpf_object* object) {
    ring_buffer* ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "probe_ring"), SawRecord, &seen, nullptr);
    if (!ring) return ErrnoError(errno, "ring buffer");
    ring_buffer__consume(ring);
    ring_buffer__free(ring);
    return OkStatus();
  };
  Finding finding = FindingOf(prober, RunTrial(trial));
  if (finding.on && seen != 1) return Finding::Off("a record was put in, but did not come out");
  return finding;
}

Finding ProbeBpfLoop(Prober& prober) {
  TrialResult result = RunTrial({.program = "do_loop"});
  Finding finding = FindingOf(prober, result, [](const TrialError& error) { return UnknownHelper(error, "needs kernel 5.17 or later"); });
  constexpr uint64_t kSum = 1000 * 999 / 2;
  if (finding.on && (result.out.value != 1000 || result.out.extra != kSum)) return Finding::Off("it ran, with a wrong result");
  return finding;
}

Finding ProbeBpfFindVma(Prober& prober) {
  if (!prober.Has(Feature::kBpfPerfEvent)) return OffBecauseOf(prober, Feature::kBpfPerfEvent);
  // An address that surely has a mapping: this function's own code.
  Trial trial{.program = "do_find_vma", .address = reinterpret_cast<uint64_t>(&brink_probe_target)};
  trial.attach = AttachClock;
  trial.trigger = [] { BurnCpu(15); };
  TrialResult result = RunTrial(trial);
  Finding finding = FindingOf(prober, result, [](const TrialError& error) { return UnknownHelper(error, "needs kernel 5.17 or later"); });
  if (!finding.on) return finding;
  if (result.out.extra == 0) {
    bool rt = prober.Has(Feature::kKernelRt);
    return Finding::Off(absl::StrCat("in the clock interrupt it always fails: ", ErrnoText(static_cast<int>(-result.out.value)),
                                     rt ? " (PREEMPT_RT cannot try the map lock there)" : ""));
  }
  finding.detail = absl::StrCat(result.out.extra, " of ", result.out.fired, " calls");
  return finding;
}

Finding ProbeBpfTaskWork(Prober& prober) {
  if (!prober.Has(Feature::kBpfPerfEvent)) return OffBecauseOf(prober, Feature::kBpfPerfEvent);
  if (!prober.Has(Feature::kBtf)) return OffBecauseOf(prober, Feature::kBtf);
  struct Form {
    ProbeForm form;
    const char* name;
  };
  TrialResult last;
  for (Form form : {Form{ProbeForm::kTaskWork, "bpf_task_work_schedule_resume"}, Form{ProbeForm::kTaskWorkImpl, "bpf_task_work_schedule_resume_impl"}}) {
    Trial trial{.program = "do_task_work", .form = form.form};
    trial.attach = AttachClock;
    trial.trigger = [] { BurnCpu(15); };
    last = RunTrial(trial);
    if (last.failed) continue;
    if (last.out.fired == 0) return Finding::Off(absl::StrCat(form.name, " loads, but the work never runs: ", ErrnoText(static_cast<int>(-last.out.value))));
    return Finding::On(form.name);
  }
  return FindingOf(prober, last, [&](const TrialError& error) {
    if (std::string_view(error.stage) != "load") return Finding{};
    return Finding::Off("this kernel has neither form of bpf_task_work_schedule_resume (6.18 and later do)",
                        prober.Has(Feature::kKernelRt) ? "use hop or step on this PREEMPT_RT kernel" : "walk runs in the clock interrupt instead");
  });
}

Finding ProbeBpfReadBranches(Prober& prober) {
  if (!prober.Has(Feature::kPerfClock)) return OffBecauseOf(prober, Feature::kPerfClock);
  TrialResult result = RunTrial({.program = "do_read_branches", .attach = AttachClock, .trigger = [] { BurnCpu(10); }});
  Finding finding = FindingOf(prober, result, [](const TrialError& error) { return UnknownHelper(error, "needs kernel 5.7 or later"); });
  // A clock sample has no stack: the right answer is ENOENT, and shows that the helper is there.
  if (finding.on && result.out.value != -ENOENT) finding.detail = absl::StrCat("answers ", result.out.value, " for a clock sample");
  return finding;
}

Finding ProbeBpfSnapshot(Prober& prober) {
  TrialResult result = RunTrial({.program = "do_branch_snapshot"});
  Finding finding = FindingOf(prober, result, [](const TrialError& error) { return UnknownHelper(error, "needs kernel 5.16 or later"); });
  if (!finding.on) return finding;
  if (result.out.value == -ENOENT) {
    const bool arm = prober.facts.arch == "aarch64";
    return Finding::Off("the kernel has no branch snapshot for this CPU (ENOENT)", prober.facts.cpu.hypervisor ? "run on metal" : arm ? "no Arm kernel has it: a sample's own records are read, and captures show what follows" : "");
  }
  if (result.out.value < 0) return Finding::Off("it answers " + ErrnoText(static_cast<int>(-result.out.value)));
  // Entries without an event that keeps the hardware on may be old: branch.snapshot judges them.
  finding.detail = absl::StrCat(result.out.value / 24, " entries");
  return finding;
}

}  // namespace brink::probe
