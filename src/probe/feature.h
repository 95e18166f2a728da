// The feature set: what this machine can do for brink, each thing proved by doing it.
//
// Made once by ProbeFeatures (or by hand in tests), immutable after that. A finding that is off says why and what to
// do. Overrides (`--fake NAME=off`, environment BRINK_FAKE) are applied before the findings that depend on them, so
// that a machine can be imitated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernel/capability.h"
#include "kernel/cpu_info.h"

namespace brink {

enum class Feature : uint8_t {
  // The kernel and its files.
  kBtf, kKernelRt, kTracefs, kBpffs, kKallsyms, kPtrace, kSigtrap, kCgroupV2, kCgroupV1, kCgroupEvents,
  // BPF program types: load, attach, fire.
  kBpfPerfEvent, kBpfRawTp, kBpfTpBtf, kBpfTracepoint, kBpfKprobe, kBpfKprobeMulti, kBpfUprobe, kBpfUretprobe,
  kBpfUretprobeSeccomp, kBpfUprobeMulti, kBpfUprobeMultiProcess, kBpfFentry, kBpfFexit, kBpfLsm,
  // BPF helpers.
  kBpfRingbuf, kBpfLoop, kBpfFindVma, kBpfTaskWork, kBpfReadBranches, kBpfSnapshot,
  // perf events.
  kPerfClock, kPerfHardware, kPerfOverflow, kPerfBreakpoint, kPerfExecBreakpoint,
  // Branch stacks of the hardware.
  kBranchStack, kBranchKernel, kBranchMispredict, kBranchCycles, kBranchType, kBranchTypeSave, kBranchHwIndex,
  kBranchPrivSave, kBranchCounters, kBranchCallStack, kBranchHeldEvent, kBranchSnapshotLive,
  // Sources, by what they need of the above.
  kSourceLbr, kSourceWalk, kSourceWalkTask, kSourceHop, kSourceStep,
};
inline constexpr size_t kFeatureCount = static_cast<size_t>(Feature::kSourceStep) + 1;

struct FeatureInfo {
  Feature id;
  const char* name;   // stable: used in JSON, --fake and tests
  const char* group;
  const char* what;   // what is proved
};
// All features, in order of the enum.
std::span<const FeatureInfo> AllFeatures();
const FeatureInfo& InfoOf(Feature feature);
// InvalidArgument with near names.
StatusOr<Feature> ParseFeature(std::string_view name);

struct Finding {
  bool on = false;
  bool fake = false;     // set by an override
  std::string reason;    // off: why. One line
  std::string remedy;    // off: what to do; "" where nothing helps
  std::string detail;    // on or off: a figure or form ("16 deep", "_impl form")

  static Finding On(std::string detail = "") { return {.on = true, .detail = std::move(detail)}; }
  static Finding Off(std::string reason, std::string remedy = "") { return {.reason = std::move(reason), .remedy = std::move(remedy)}; }
};

// What is known about the machine beside yes and no.
struct MachineFacts {
  CpuInfo cpu;
  std::string kernel;               // uname -r
  std::string arch;                 // uname -m
  int cpus_online = 0;
  int paranoid = 2;
  int kptr_restrict = 0;
  int yama_scope = 0;
  int unprivileged_bpf_disabled = 0;
  uint64_t max_sample_rate = 0;
  CapSet caps;
  std::vector<std::string> pmus;    // core PMUs
  uint32_t branch_depth = 0;        // sysfs caps/branches or CPUID; 0 unknown
  uint64_t branch_flags = 0;        // PERF_SAMPLE_BRANCH_* that opened one by one
  std::string branch_event;         // what samples branch stacks here: "cycles", "branch-brs"; "" none
};

struct SourceChoice {
  std::string name;    // lbr, walk, hop, step; "" where none works
  std::string reason;
};

class FeatureSet {
 public:
  bool Has(Feature feature) const { return Get(feature).on; }
  const Finding& Get(Feature feature) const { return findings_[static_cast<size_t>(feature)]; }
  const MachineFacts& facts() const { return facts_; }
  // What --source auto takes.
  SourceChoice AutoSource() const;
  // FailedPrecondition "NAME: REASON; REMEDY" where the feature is off.
  Status Require(Feature feature) const;

  // For tests and for the prober. Findings left out are off ("not probed").
  FeatureSet(std::map<Feature, Finding> findings, MachineFacts facts);

 private:
  std::array<Finding, kFeatureCount> findings_;
  MachineFacts facts_;
};

using Overrides = std::map<Feature, bool>;
// "bpf.fentry=off"; several divided by commas.
Status ParseOverrides(std::string_view text, Overrides* overrides);
// BRINK_FAKE of the environment; empty where unset.
StatusOr<Overrides> OverridesFromEnv();

}  // namespace brink
