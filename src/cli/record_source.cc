#include "cli/record_source.h"

#include <algorithm>
#include <charconv>

#include "base/fd.h"
#include "base/strings.h"
#include "brbe/diagnose.h"
#include "cli/record_exact.h"
#include "cli/record_filter.h"
#include "probe/probe.h"
#include "session/event_source.h"
#include "source/lbr.h"
#include "source/walk_source.h"

namespace brink::cli {
namespace {

// One stack a line: "FROM/TO FROM/TO ..." in hexadecimal, newest first.
StatusOr<std::vector<ReplayStack>> ReadReplayFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::vector<ReplayStack> stacks;
  for (std::string_view line : Split(text, '\n')) {
    ReplayStack stack;
    for (std::string_view word : Split(Trim(line), ' ')) {
      if (word.empty()) continue;
      brink_branch entry = {.info = MakeInfo(Kind::kUnknown)};
      auto from = std::from_chars(word.data(), word.data() + word.size(), entry.from, 16);
      if (from.ec != std::errc() || from.ptr == word.data() + word.size() || *from.ptr != '/') return DataLoss(path + ": expected FROM/TO words");
      auto to = std::from_chars(from.ptr + 1, word.data() + word.size(), entry.to, 16);
      if (to.ec != std::errc()) return DataLoss(path + ": expected FROM/TO words");
      stack.entries.push_back(entry);
    }
    if (!stack.entries.empty()) stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) return InvalidArgument(path + ": no stacks");
  return stacks;
}

// Stacks of 32 that look like a loop with calls: for runs without recorded ones.
std::vector<ReplayStack> MadeUpStacks() {
  std::vector<ReplayStack> stacks(256);
  for (size_t i = 0; i < stacks.size(); ++i) {
    for (uint64_t j = 0; j < 32; ++j) {
      uint64_t from = 0x401000 + 64 * ((i * 7 + j * 13) % 512);
      stacks[i].entries.push_back({from, from + 16 + 8 * (j % 5), MakeInfo(j % 4 == 0 ? Kind::kCall : Kind::kCond)});
    }
  }
  return stacks;
}

// Hardware stacks: event, flags and period as this CPU wants them.
Status UseLbr(const RecordOptions& options, RecordRequest* request) {
  SessionSpec& session = request->spec.session;
  LbrRequest wanted{.period = session.period, .depth = static_cast<uint32_t>(options.depth)};
  wanted.frequency = session.period ? 0 : session.frequency;
  if (!options.branch_filter.empty() || !options.where.empty()) {
    ASSIGN_OR_RETURN(wanted.flags, HardwareBranchBits(options));
  }
  if (!options.events.empty()) {
    if (session.events.size() > 1) return InvalidArgument("-e: branch hardware takes one event at a time");
    wanted.event = session.events[0];
  }
  ASSIGN_OR_RETURN(LbrSampling sampling, MakeLbrSampling(wanted));
  if (sampling.event.period) {
    session.frequency = 0;
    session.period = sampling.event.period;
  }
  session.events = {std::move(sampling.event)};
  for (std::string& note : sampling.notes) request->notes.push_back(std::move(note));
  request->source = std::move(sampling.source);
  return OkStatus();
}

Status UseReplay(const RecordOptions& options, RecordRequest* request) {
  std::vector<ReplayStack> stacks = MadeUpStacks();
  if (!options.replay_file.empty()) {
    ASSIGN_OR_RETURN(stacks, ReadReplayFile(options.replay_file));
  }
  request->source = EventSource::Replay(std::move(stacks));
  return OkStatus();
}

// Where walks happen. "auto" takes task mode where the kernel proves to have it.
StatusOr<WalkMode> ChooseWalkMode(const RecordOptions& options, const Overrides& overrides, RecordRequest* request) {
  if (options.walk_mode == "irq") return WalkMode::kInterrupt;
  if (options.walk_mode != "auto" && options.walk_mode != "task") return InvalidArgument("--walk-mode: expected auto, task or irq");
  FeatureSet features = ProbeFeatures({.overrides = overrides, .only = {Feature::kBpfTaskWork}});
  if (features.Has(Feature::kBpfTaskWork)) return options.walk_mode == "task" ? WalkMode::kTask : WalkMode::kPreferTask;
  if (options.walk_mode == "task") return Annotate(features.Require(Feature::kBpfTaskWork), "--walk-mode task");
  request->notes.push_back("walks happen in the sampling interrupt: " + features.Get(Feature::kBpfTaskWork).reason);
  return WalkMode::kInterrupt;
}

// Per cent as the option has it, below 0 where it was not given. What is asked for is never nothing, which would mean no limit.
uint32_t PermilleOr(double percent, uint32_t usual) {
  if (percent < 0) return usual;
  return percent == 0 ? 0 : std::max(1u, static_cast<uint32_t>(percent * 10 + 0.5));
}

// Stacks executed in BPF: where there is no branch hardware.
Status UseWalk(const RecordOptions& options, const Overrides& overrides, RecordRequest* request) {
  // What every walk needs; a kernel below the floor lacks one of them, and loading would say so in the verifier's words.
  FeatureSet features = ProbeFeatures({.overrides = overrides, .only = {Feature::kBpfRingbuf, Feature::kBpfLoop, Feature::kKernelRt}});
  RETURN_IF_ERROR(features.Require(Feature::kBpfRingbuf));
  RETURN_IF_ERROR(features.Require(Feature::kBpfLoop));
  WalkSourceOptions walk;
  ASSIGN_OR_RETURN(walk.mode, ChooseWalkMode(options, overrides, request));
  walk.depth = static_cast<uint32_t>(options.depth);
  // Depth is worth more than frequency (docs/walk.md), where the frequency leaves time for it.
  const WalkDefaults usual = WalkDefaultsFor(request->spec.session.frequency);
  if (walk.depth == 0) {
    walk.depth = usual.depth;
    if (walk.mode == WalkMode::kInterrupt) walk.depth = std::min<uint32_t>(walk.depth, BRINK_WALK_IRQ_DEPTH);
    walk.depth_is_wish = true;
  }
  walk.budget_ns = options.walk_budget_ns;
  walk.interrupt_budget_ns = kWalkMaxBudgetNs;
  walk.share_permille = PermilleOr(options.walk_share_percent, usual.share_permille);
  walk.burst_ns = walk.share_permille * kWalkBurstNsPerPermille;
  walk.cache_bytes = options.code_cache;
  walk.allow_device = options.allow_device;
  walk.wait_permille = PermilleOr(options.walk_wait_percent, usual.wait_permille);
  walk.wait_burst_ns = walk.wait_permille * kWaitBurstNsPerPermille;
  // A hardware event comes as an NMI, which may have interrupted anything that a walk would look at.
  const auto& events = request->spec.session.events;
  const auto nmi = std::find_if(events.begin(), events.end(), [](const EventSpec& event) { return event.is_hardware(); });
  if (nmi != events.end() && walk.mode == WalkMode::kInterrupt) {
    return InvalidArgument("--source walk: event " + EscapeForTerminal(nmi->name) + " interrupts by an NMI, in which nothing is walked; use -e cpu-clock");
  }
  if (walk.mode == WalkMode::kPreferTask) walk.try_at_once = nmi == events.end() && !features.Has(Feature::kKernelRt);
  ASSIGN_OR_RETURN(request->source, WalkSource::Create(walk));
  return OkStatus();
}

Status UseNone(const RecordOptions& options, RecordRequest* request) {
  if (!options.branch_filter.empty() || options.branch_any) return InvalidArgument("-b and -j need a source of branch stacks, not none");
  request->source = EventSource::None();
  return OkStatus();
}

// What is to be proved before a source is chosen: as little as decides.
std::vector<Feature> FeaturesOf(std::string_view source) {
  if (source == "auto" || source == "lbr") return {Feature::kBtf, Feature::kSourceLbr};
  return {Feature::kBtf};
}

// Branches without hardware know two instruction sets; events alone are taken everywhere.
Status KnowsThisMachine(const FeatureSet& features) {
  if (features.facts().arch == "x86_64" || features.facts().arch == "aarch64") return OkStatus();
  return FailedPrecondition("walk, hop and step know x86-64 and arm64 code only, and this machine is " + features.facts().arch +
                            "; record with --source none (samples and call chains), or with branch hardware (" + features.Get(Feature::kSourceLbr).reason + ")");
}

}  // namespace

Status ParseEvents(const RecordOptions& options, std::vector<EventSpec>* events) {
  if (auto hint = brbe::ArticleSpelling(options.events)) return InvalidArgument("-e " + EscapeForTerminal(options.events) + ": " + *hint);
  auto parsed = ParseEventList(options.events.empty() ? "cpu-clock" : options.events);
  if (!parsed.ok()) return Annotate(parsed.status(), "-e");
  *events = std::move(*parsed);
  return OkStatus();
}

Status ChooseSource(const RecordOptions& options, RecordRequest* request) {
  ASSIGN_OR_RETURN(Overrides overrides, OverridesFromEnv());
  FeatureSet features = ProbeFeatures({.overrides = overrides, .only = FeaturesOf(options.source)});
  RETURN_IF_ERROR(features.Require(Feature::kBtf));
  if (options.source == "replay" || options.replay_count || !options.replay_file.empty()) return UseReplay(options, request);
  if (options.source == "none") return UseNone(options, request);
  if (options.source == "hop" || options.source == "step" || options.source == "walk") RETURN_IF_ERROR(KnowsThisMachine(features));
  if (options.source == "hop" || options.source == "step") return UseExact(options, options.source == "hop", request);
  if (options.source == "walk") return UseWalk(options, overrides, request);
  if (options.source != "lbr" && options.source != "auto") {
    return InvalidArgument("--source: '" + EscapeForTerminal(options.source) + "' is none of auto, lbr, walk, hop, step, none");
  }
  if (features.Has(Feature::kSourceLbr)) return UseLbr(options, request);
  if (options.source == "lbr") return features.Require(Feature::kSourceLbr);
  RETURN_IF_ERROR(KnowsThisMachine(features));
  request->notes.push_back("source walk, as there is no branch hardware: " + features.Get(Feature::kSourceLbr).reason);
  return UseWalk(options, overrides, request);
}

}  // namespace brink::cli
