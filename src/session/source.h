// The seam behind which all sources of branch stacks hide: lbr, walk, hop, step, replay.
//
// A source of the BPF kind (lbr, walk, replay) brings one perf_event program; the session opens the sampling events for
// the target and attaches it to each. Its object uses the session's ring, counters, task set and configuration:
// SourceContext::Share connects them before load. A source of the user-space kind (hop, step) has no program; it starts
// its own machinery in Start and hands samples in through SourceContext::Inject, in the ABI's form.
#pragma once

#include <linux/perf_event.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "brink/abi/event.h"

struct bpf_object;
struct bpf_program;

namespace brink {

// What the session and the file need to know about a source. Constant over its life.
struct SourceTraits {
  std::string name;  // "lbr"
  brink_source id = BRINK_SOURCE_NONE;
  brink_direction direction = BRINK_DIR_PAST;
  bool contiguous = false;          // every taken branch between oldest and newest is there
  uint64_t branch_sample_type = 0;  // PERF_SAMPLE_BRANCH_* that the file states; 0: no branch stacks at all
  uint32_t depth = 0;               // most branches of a stack
  bool sampling_events = true;      // wants the session's perf events with program() on them
  bool filters_in_bpf = false;      // program() applies the session's filter (lib/sample.h); else user space does
  bool user_only = false;           // samples that hit the kernel are of no use: drop them in BPF
  // Longest time from a sample's time stamp to its place in the ring, but for what OldestUnderWay tells. Rounds are
  // spaced by it (deferred walks).
  uint64_t max_delay_ns = 0;
};

// One line of the final report and of the statistics in JSON.
struct StatLine {
  std::string name;   // snake_case
  double value = 0;
  std::string text;   // for people: "mean depth 29.4 of 32"; "" = for machines only
};

// What the session offers to its source. Outlives it.
class SourceContext {
 public:
  virtual ~SourceContext() = default;
  // Between open and load of an object that includes bpf/lib/base.h: gives it the session's maps (by name) and the
  // configuration. Maps of other names are left alone.
  virtual Status Share(bpf_object* object) = 0;
  // A finished record (struct brink_sample with entries and chain, or another ABI record). Any thread. False: no room,
  // counted as lost.
  virtual bool Inject(std::span<const std::byte> record) = 0;
  // Processes or threads that are the target when the session starts; the command's pid (stopped before its exec
  // until the session is armed) where there is one. Empty for all CPUs and cgroups.
  virtual const std::vector<pid_t>& target_pids() const = 0;
  virtual pid_t command_pid() const = 0;  // 0: none
  // CPUs that are sampled.
  virtual const std::vector<int>& cpus() const = 0;
  // Distance of two samples in ns for clocks, 0 for others.
  virtual uint64_t period_ns() const = 0;
  // Whether the session samples at tracepoints (then tracepoint_program() is wanted), and at which of their hits.
  virtual bool samples_tracepoints() const { return false; }
  virtual uint64_t tracepoint_period() const { return 1; }
};

class StackSource {
 public:
  virtual ~StackSource() = default;
  virtual SourceTraits traits() const = 0;

  // First of all: the command child has been forked, nothing else is open yet. Helper processes are forked here, so
  // that they inherit no ring, link or event.
  virtual Status Prepare(SourceContext& /*context*/) { return OkStatus(); }
  // Adds to the attribute of a sampling event what the source needs (lbr: the branch stack). Before it is opened.
  virtual Status AmendEvent(perf_event_attr* /*attr*/) { return OkStatus(); }
  // Opens, configures, shares and loads its objects. The command child has been forked, no event is open.
  virtual Status Load(SourceContext& context) = 0;
  // perf_event program for the sampling events; nullptr for user-space sources.
  virtual bpf_program* program() { return nullptr; }
  // Tracepoint program (BPF_PROG_TYPE_TRACEPOINT) for events that are tracepoints; nullptr: the source cannot sample
  // there.
  virtual bpf_program* tracepoint_program() { return nullptr; }
  // Events are open and still disabled; the drain runs. Threads of the source start here.
  virtual Status Start(SourceContext& /*context*/) { return OkStatus(); }
  // Any record of the ring that is no sample and no task event (BRINK_REC_MISS). Drain thread; must be quick.
  virtual void OnRecord(std::span<const std::byte> /*record*/) {}
  // The head of every sample that the session's programs sent, for statistics. Drain thread; must be quick.
  virtual void OnSample(const brink_sample& /*sample*/) {}
  // Every round of the drain (at least each 100 ms). Drain thread; must be quick.
  virtual void OnTick(uint64_t /*now_ns*/) {}
  // Time of the oldest sample whose record is not in the ring yet, as far as the source knows; UINT64_MAX: none. What is
  // in the ring already when this is asked need not be counted. Rounds wait for it. Drain thread; must be quick.
  virtual uint64_t OldestUnderWay() { return UINT64_MAX; }
  // A target process has changed its executable mappings or ended (from the side-band). Drain thread.
  virtual void OnProcessChange(pid_t /*tgid*/, bool /*exited*/) {}
  // Events are disabled; after this no record may be injected.
  virtual void Stop() {}
  // Statistics of the run, after Stop.
  virtual std::vector<StatLine> Report() { return {}; }
};

}  // namespace brink
