// Sources: what each needs, and what of that is missing.
#include "probe/prober.h"

namespace brink::probe {
namespace {

// The first that is off, as this source's finding; on otherwise.
Finding AllOf(Prober& prober, std::initializer_list<Feature> features) {
  for (Feature feature : features) {
    if (!prober.Has(feature)) return OffBecauseOf(prober, feature);
  }
  return Finding::On();
}

bool Decodes(const Prober& prober) { return prober.facts.arch == "x86_64" || prober.facts.arch == "aarch64"; }

// Their decoders and register sets are those of one architecture.
Finding NotBuilt(const Prober& prober) {
  return Finding::Off("walk, hop and step know x86-64 and arm64 code; this machine is " + prober.facts.arch, "record with --source none (samples and call chains), or with branch hardware");
}

}  // namespace

Finding ProbeSourceLbr(Prober& prober) {
  return AllOf(prober, {Feature::kBranchStack, Feature::kBpfPerfEvent, Feature::kBpfReadBranches, Feature::kBpfRingbuf});
}

Finding ProbeSourceWalk(Prober& prober) {
  Finding finding = AllOf(prober, {Feature::kPerfClock, Feature::kBpfPerfEvent, Feature::kBpfLoop, Feature::kBpfRingbuf});
  if (!finding.on) return finding;
  if (!Decodes(prober)) return NotBuilt(prober);
  if (prober.Has(Feature::kKernelRt) && !prober.Has(Feature::kBpfTaskWork)) {
    return Finding::Off("on PREEMPT_RT walk needs task work: " + prober.Get(Feature::kBpfTaskWork).reason, "use a kernel with bpf_task_work_schedule_resume, or hop or step");
  }
  return finding;
}

Finding ProbeSourceWalkTask(Prober& prober) { return AllOf(prober, {Feature::kSourceWalk, Feature::kBpfTaskWork}); }
Finding ProbeSourceHop(Prober& prober) { return !Decodes(prober) ? NotBuilt(prober) : AllOf(prober, {Feature::kPtrace, Feature::kPerfExecBreakpoint}); }
Finding ProbeSourceStep(Prober& prober) { return !Decodes(prober) ? NotBuilt(prober) : AllOf(prober, {Feature::kPtrace}); }

}  // namespace brink::probe
