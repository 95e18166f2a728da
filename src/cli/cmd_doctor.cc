#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/commands.h"
#include "cli/version.h"
#include "probe/probe.h"
#include "probe/report.h"
#include "snapshot/calibrate.h"

namespace brink::cli {
namespace {

uint64_t Now(clockid_t clock) {
  struct timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Fires a hook of each kind that works here; on hardware some 50 ms each.
std::vector<BurntEntries> MeasureBurnt(const FeatureSet& features) {
  constexpr struct {
    HookKind kind;
    Feature needs;
  } kHooks[] = {{HookKind::kRawTp, Feature::kBpfRawTp},   {HookKind::kTpBtf, Feature::kBpfTpBtf},
                {HookKind::kTracepoint, Feature::kBpfTracepoint}, {HookKind::kKprobe, Feature::kBpfKprobe},
                {HookKind::kKprobeMulti, Feature::kBpfKprobeMulti}, {HookKind::kFentry, Feature::kBpfFentry},
                {HookKind::kFexit, Feature::kBpfFexit}, {HookKind::kPerfEvent, Feature::kBpfPerfEvent}};
  std::vector<BurntEntries> out;
  for (const auto& hook : kHooks) {
    BurntEntries burnt{.hook = std::string(HookKindName(hook.kind))};
    Status possible = features.Require(Feature::kBranchSnapshotLive);
    if (possible.ok()) possible = features.Require(hook.needs);
    auto measured = possible.ok() ? Calibrate(hook.kind) : StatusOr<Calibration>(possible);
    if (measured.ok()) {
      burnt = {burnt.hook, "", measured->burnt_least, measured->burnt_most, measured->depth, measured->runs, {}};
      for (const CodeRange& function : measured->path.functions()) burnt.functions.push_back(function.name);
    } else {
      burnt.failed = Message(measured.status());
    }
    out.push_back(std::move(burnt));
  }
  return out;
}

class DoctorCommand : public Command {
 public:
  const CommandSpec& spec() const override { return spec_; }

  StatusOr<int> Run(const Parsed& parsed) override {
    if (!parsed.rest.empty()) return InvalidArgument("doctor takes no words; '" + parsed.rest[0] + "' is one");
    ASSIGN_OR_RETURN(Overrides overrides, OverridesFromEnv());
    for (const auto& [feature, on] : fakes_) overrides[feature] = on;
    if (!needed_.empty()) RETURN_IF_ERROR(ParseFeature(needed_).status());
    uint64_t realtime = Now(CLOCK_REALTIME), begin = Now(CLOCK_MONOTONIC);
    FeatureSet features = ProbeFeatures({.overrides = overrides});
    DoctorReport report{.features = features, .version = VersionLine(), .took_ns = Now(CLOCK_MONOTONIC) - begin,
                        .realtime_ns = realtime, .monotonic_ns = begin};
    report.tracepoints = ProbeTracepoints(features, LatencyTracepoints());
    if (calibrate_) report.burnt = MeasureBurnt(features);
    std::string text = json_ ? DoctorJson(report) : DoctorText(report, verbose_);
    RETURN_IF_ERROR(Put(text));
    if (!needed_.empty()) RETURN_IF_ERROR(features.Require(*ParseFeature(needed_)));
    return kDone;
  }

 private:
  Status Put(const std::string& text) const {
    if (json_file_.empty()) return WriteAll(STDOUT_FILENO, text.data(), text.size());
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(json_file_, O_WRONLY | O_CREAT | O_TRUNC));
    return WriteAll(fd.get(), text.data(), text.size());
  }

  bool json_ = false, verbose_ = false, calibrate_ = false;
  std::string json_file_, needed_;
  Overrides fakes_;
  CommandSpec spec_{
      .name = "doctor",
      .summary = "what this machine can do, proved by doing it, and why not",
      .usage = "[options]",
      .description =
          "Tries every kernel feature that brink can use: loads and fires each kind of BPF program, samples with each kind\n"
          "of event, records a loop whose branches are known. Each line that says no is followed by the reason and, where\n"
          "something helps, by what to do. Nothing is left attached. docs/doctor.md explains each line.",
      .options =
          {
              {.name = "json", .value = Value::kOptional, .meta = "FILE", .group = "Output", .help = "One JSON object (schema brink.doctor.v1) on stdout or in FILE.",
               .set = [this](std::string_view file) {
                 json_ = true;
                 json_file_ = file;
                 return OkStatus();
               }},
              {.letter = 'v', .name = "verbose", .group = "Output", .help = "Figures of features that work, too.", .set = StoreFlag(&verbose_)},
              {.name = "calibrate", .group = "Output",
               .help = "Measures how many entries of a branch snapshot the capture itself burns, for each kind of hook.", .set = StoreFlag(&calibrate_)},
              {.name = "need", .value = Value::kRequired, .meta = "FEATURE", .group = "Output",
               .help = "Fail (status 1, one line on stderr) unless FEATURE works: for scripts.", .set = StoreString(&needed_)},
              {.name = "fake", .value = Value::kRequired, .meta = "FEATURE=on|off", .group = "Tests",
               .help = "Takes FEATURE for working or not, without trying; repeatable. What builds on it follows. BRINK_FAKE in the environment does the same.",
               .set = [this](std::string_view text) { return ParseOverrides(text, &fakes_); }},
          },
      .examples =
          {
              {"brink doctor", "what works here, what does not, and what to do"},
              {"brink doctor --json | jq '.features[] | select(.on | not) | .name'", "names of what is missing"},
              {"brink doctor --need source.walk && brink record --source walk -- make", "record only where walk works"},
              {"brink doctor --fake bpf.loop=off", "what a kernel without bpf_loop would mean"},
          },
  };
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<DoctorCommand>(); }

}  // namespace brink::cli
