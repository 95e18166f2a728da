#include "snap/snap_source.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "pipeline/drain.h"
#include "session/sampling.h"
#include "snap/follow.h"

namespace brink::snap {
namespace {

// From a capture to the end of the walk that follows it: a later one is dropped (WALK_LATE_END_NS of bpf/walk/task.h).
constexpr uint64_t kLongestFollowNs = 60'000'000;

// How a trigger's program is reached, for learning what the way to it burns. Nothing where user branches are held: none
// of them are ours.
std::optional<HookKind> HookOf(TriggerKind kind, bool multi) {
  switch (kind) {
    case TriggerKind::kTracepoint: return HookKind::kTracepoint;
    case TriggerKind::kRawTracepoint: case TriggerKind::kOom: case TriggerKind::kSyscallEnter: case TriggerKind::kSyscallExit: return HookKind::kRawTp;
    case TriggerKind::kKprobe: case TriggerKind::kKretprobe: return multi ? HookKind::kKprobeMulti : HookKind::kKprobe;
    case TriggerKind::kFentry: return HookKind::kFentry;
    case TriggerKind::kFexit: return HookKind::kFexit;
    default: return std::nullopt;
  }
}

}  // namespace

StatusOr<std::unique_ptr<SnapSource>> SnapSource::Create(SnapRequest request) {
  std::unique_ptr<SnapSource> source(new SnapSource);
  source->request_ = std::move(request);
  if (!source->request_.errno_path.empty()) RETURN_IF_ERROR(source->AddErrnoPath());
  if (source->request_.triggers.empty()) return InvalidArgument("say when: --on TRIGGER; example: brink snap --on syscall:openat --if 'ret == -EACCES'");
  for (const std::vector<std::string>* words : {&source->request_.groups.containers, &source->request_.groups.pods, &source->request_.groups.not_containers, &source->request_.groups.not_pods}) {
    if (std::find(words->begin(), words->end(), "") != words->end()) return InvalidArgument("--container and --pod need a name");
  }
  if (const std::string& root = source->request_.runtime_root; !root.empty() && !std::filesystem::is_directory(root)) return NotFound("--runtime-root: no folder " + EscapeForTerminal(root));
  RETURN_IF_ERROR(source->ChooseHierarchyOfGroups());
  source->resolver_ = std::make_unique<ContainerResolver>(ResolverOptions{.runtime_root = source->request_.runtime_root, .hierarchy = source->hierarchy_});
  for (const std::string& text : source->request_.triggers) RETURN_IF_ERROR(source->AddTrigger(text));
  RETURN_IF_ERROR(source->ChooseBranches());
  source->ChooseEventsByGroup();
  source->ChooseProbesByMember();
  return source;
}

StatusOr<KernelTypes*> SnapSource::Types() {
  if (!types_) {
    ASSIGN_OR_RETURN(types_, KernelTypes::Load());
  }
  return types_.get();
}

SourceTraits SnapSource::traits() const {
  if (follower_) {
    SourceTraits traits = follower_->traits();
    traits.sampling_events = false;
    traits.filters_in_bpf = false;
    traits.user_only = false;
    return traits;
  }
  SourceTraits traits;
  traits.name = branch_flags_ ? "lbr" : "none";
  traits.id = branch_flags_ ? BRINK_SOURCE_LBR : BRINK_SOURCE_NONE;
  traits.direction = BRINK_DIR_PAST;
  traits.branch_sample_type = branch_flags_;
  traits.depth = branch_flags_ ? BRINK_MAX_HW_BRANCHES : 0;
  // Trimming takes entries from the newest end only: what is left follows on each other.
  traits.contiguous = branch_flags_ != 0;
  traits.sampling_events = false;
  return traits;
}

Status SnapSource::Prepare(SourceContext& /*context*/) {
  paths_.resize(plans_.size());
  fallbacks_.resize(plans_.size());
  if (!branch_flags_) return OkStatus();
  // Before the session's own event is held: there is one filter a CPU. Once a kind of hook: each takes programs of its own.
  std::map<HookKind, std::optional<CapturePath>> calibrated;
  for (size_t i = 0; i < plans_.size(); ++i) {
    auto hook = HookOf(plans_[i].trigger.kind, plans_[i].functions.size() > 1);
    if (!hook || !(branch_flags_ & PERF_SAMPLE_BRANCH_KERNEL)) continue;
    auto [known, fresh] = calibrated.try_emplace(*hook);
    if (fresh) {
      auto calibration = Calibrate(*hook);
      if (calibration.ok()) known->second = calibration->path;
      else notes_.push_back("branches of " + plans_[i].trigger.text + " and its like are not trimmed: " + Message(calibration.status()));
    }
    paths_[i] = known->second;
  }
  return OkStatus();
}

// Neither the form that was asked for nor the one in its place.
Status SnapSource::RefusedTwice(const Status& status, size_t index) const {
  if (request_.errno_path.empty() || status.code() != absl::StatusCode::kUnimplemented) return Annotate(status, fallbacks_[index]);
  return Annotate(status, "--errno-path needs fexit or kretprobe, and this kernel has neither; --on syscall:" + request_.errno_path + " --if 'ret < 0' shows the calls that fail");
}

Status SnapSource::LoadTrigger(size_t index, SourceContext& context) {
  auto share = [&](bpf_object* object) { return context.Share(object); };
  auto object = TriggerObject::Load(plans_[index], share, maps_);
  const TriggerKind kind = plans_[index].trigger.kind;
  if (!object.ok() && (kind == TriggerKind::kFentry || kind == TriggerKind::kFexit) && object.status().code() != absl::StatusCode::kNotFound) {
    // The same function by a kprobe, whose context is laid out otherwise.
    Trigger other = plans_[index].trigger;
    other.kind = kind == TriggerKind::kFentry ? TriggerKind::kKprobe : TriggerKind::kKretprobe;
    notes_.push_back(std::string(TriggerKindName(kind)) + " is refused here (" + Message(object.status()) + "): " + std::string(TriggerKindName(other.kind)) + " taken instead");
    std::vector<ShownTrigger> shown = std::move(shown_);
    std::vector<TriggerPlan> plans = std::move(plans_);
    shown_.clear();
    plans_.clear();
    Status planned = PlanTrigger(other);
    TriggerPlan plan = planned.ok() ? plans_.back() : TriggerPlan{};
    ShownTrigger view = planned.ok() ? shown_.back() : ShownTrigger{};
    plans_ = std::move(plans);
    shown_ = std::move(shown);
    RETURN_IF_ERROR(planned);
    plan.config.trigger = static_cast<uint32_t>(index);
    plan.config.flags |= plans_[index].config.flags & BRINK_SNAP_CFG_SNAPSHOT;
    plans_[index] = plan;
    shown_[index] = view;
    shown_[index].trigger.text = plans_[index].trigger.text;
    object = TriggerObject::Load(plans_[index], share, maps_);
    fallbacks_[index] = notes_.back();
    if (!object.ok()) return RefusedTwice(object.status(), index);
  }
  RETURN_IF_ERROR(object.status());
  objects_.push_back(*std::move(object));
  return OkStatus();
}

Status SnapSource::Load(SourceContext& context) {
  auto share = [&](bpf_object* object) { return context.Share(object); };
  SideObject::Options side = {.history = request_.history, .irqs = request_.history_irqs};
  side.config.flags = plans_[0].config.flags & (BRINK_SNAP_CFG_V1 | BRINK_SNAP_CFG_CGROUPS | BRINK_SNAP_CFG_NOT_CGROUPS);
  side.members = std::any_of(plans_.begin(), plans_.end(), [](const TriggerPlan& plan) { return plan.by_member; });
  side.config.subsys = plans_[0].config.subsys;
  ASSIGN_OR_RETURN(side_, SideObject::Load(share, maps_, side));
  for (size_t i = 0; i < plans_.size(); ++i) {
    // User probes of one process only: others do not even see them.
    if (request_.pid > 0) plans_[i].pid = request_.pid;
    RETURN_IF_ERROR(LoadTrigger(i, context));
  }
  if (request_.groups.wants() || request_.groups.excludes()) RETURN_IF_ERROR(FillGroups(maps_.groups_fd()));
  if (follower_) RETURN_IF_ERROR(LoadFollower(context));
  if (!branch_flags_) return OkStatus();
  ASSIGN_OR_RETURN(held_, HeldEvents::Open(branch_flags_));
  return OkStatus();
}

Status SnapSource::Start(SourceContext& context) {
  if (follower_) RETURN_IF_ERROR(follower_->Start(context));
  RETURN_IF_ERROR(side_->Attach());
  for (size_t i = 0; i < objects_.size(); ++i) {
    Status attached = objects_[i]->Attach();
    if (!attached.ok()) return fallbacks_[i].empty() ? attached : RefusedTwice(attached, i);
  }
  RETURN_IF_ERROR(SetEventGroups());
  // One of many may refuse; the next look tries again.
  if (Status set = SetMembers(); !set.ok()) {
    if (std::any_of(objects_.begin(), objects_.end(), [](const auto& object) { return object->by_member() && object->members() == 0; })) return set;
    member_failures_ = 1;
    member_failure_ = Message(set);
  }
  for (auto& object : objects_) {
    if (!object->how().empty()) notes_.push_back(object->how());
  }
  {
    MutexLock lock(tick_mutex_);
    RETURN_IF_ERROR(FollowMembers());
    ticking_ = true;
  }
  if (!branch_flags_) return OkStatus();
  // Trampolines and programs exist only now.
  auto code = KernelCode::Read();
  if (!code.ok()) return OkStatus();
  code_ = *std::move(code);
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (!paths_[i]) continue;
    auto hooked = plans_[i].functions.size() == 1 ? code_->FindFunction(plans_[i].functions[0]) : std::nullopt;
    paths_[i] = paths_[i]->For(objects_[i]->ProgramRangesOf(), hooked);
  }
  return OkStatus();
}

void SnapSource::OnSample(const brink_sample& sample) {
  if (follower_ && sample.direction == BRINK_DIR_FUTURE) follower_->OnSample(sample);
}

// A thread that sleeps in the kernel comes back when it likes: rounds do not wait for it.
uint64_t SnapSource::OldestUnderWay() {
  if (!follower_) return UINT64_MAX;
  const uint64_t now = MonotonicNs();
  return std::max(follower_->OldestUnderWay(), now - std::min(now, kLongestFollowNs));
}

void SnapSource::OnProcessChange(pid_t tgid, bool exited) {
  if (follower_) follower_->OnProcessChange(tgid, exited);
}

void SnapSource::OnRecord(std::span<const std::byte> record) {
  if (follower_) follower_->OnRecord(record);
  brink_snap_group group = {};
  if (record.size() <= offsetof(brink_snap_group, path) || record.size() > sizeof(group)) return;
  std::memcpy(&group, record.data(), record.size());
  if (group.header.type != BRINK_REC_SNAP_GROUP) return;
  // A name that is waited for may be this one: looked for at the next tick.
  if (next_group_look_ns_ > 1) next_group_look_ns_ = 1;
  MutexLock lock(new_groups_mutex_);
  // Nobody takes them where nothing is printed.
  if (new_groups_.size() < ContainerResolver::kMaxCached) new_groups_.emplace_back(group.id, std::string(group.path, strnlen(group.path, sizeof(group.path))));
}

// Those that captures have asked for come in before the end.
void SnapSource::WaitForWalks() {
  const uint64_t until = MonotonicNs() + kLongestFollowNs;
  while (follower_->OldestUnderWay() != UINT64_MAX && MonotonicNs() < until) usleep(1000);
}

std::string SnapSource::WhyNoFollowUp(uint32_t trigger) const {
  const size_t index = std::min<size_t>(trigger, shown_.size() - 1);
  std::string why = WhyNotFollowed(shown_[index].trigger);
  if (why.empty() && !(plans_[index].config.flags & BRINK_SNAP_CFG_FOLLOW)) return no_branches_ + "; --source walk shows what follows";
  return why.empty() ? "no walk came back: the thread slept for more than 20 ms or ended, is one of the kernel, or too many are followed at once" : why;
}

void SnapSource::Stop() {
  {
    // The tick that is under way ends first; the drain goes on, walks come in by it.
    MutexLock lock(tick_mutex_);
    ticking_ = false;
  }
  members_.reset();
  for (auto& object : objects_) object->Detach();
  if (follower_) {
    WaitForWalks();
    follower_->Stop();
  }
  if (side_) side_->Detach();
  held_.reset();
}

void SnapSource::Pause(bool paused) {
  for (auto& object : objects_) object->Pause(paused);
}

Status SnapSource::Fire() {
  bool fired = false;
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (plans_[i].trigger.kind != TriggerKind::kManual) continue;
    fired = true;
    RETURN_IF_ERROR(objects_[i]->Fire());
  }
  return fired ? OkStatus() : FailedPrecondition("no manual trigger");
}

std::span<const BranchEntry> SnapSource::Trim(uint32_t trigger, std::span<const BranchEntry> entries) const {
  const bool both = (branch_flags_ & (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL)) == (PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL);
  entries = entries.first(TrustedLength(entries, both));
  if (trigger >= paths_.size() || !paths_[trigger] || !code_) return entries;
  return entries.subspan(paths_[trigger]->Burnt(entries, code_->Lookup()));
}

std::vector<StatLine> SnapSource::Report() {
  constexpr const char* kNames[] = {"hits", "if_false", "if_unknown", "too_fast", "no_entry", "not_nth", "repeated", "limited", "after_count", "no_slot", "captured", "keys", "not_handed"};
  constexpr const char* kTexts[] = {"hits", "--if false", "--if unknown", "faster than asked", "entry not seen", "skipped by --nth", "repeated (--once-per)", "above --limit", "after --count", "no free slot", "captured", "keys", "not followed"};
  std::vector<StatLine> lines;
  for (size_t i = 0; i < objects_.size(); ++i) {
    SnapCounts counts = objects_[i]->ReadCounts();
    std::string text;
    for (size_t j = 0; j < std::size(kNames); ++j) {
      lines.push_back({"trigger_" + std::to_string(i) + "_" + kNames[j], static_cast<double>(counts[j]), ""});
      // Nobody is there to be handed to.
      if (j == BRINK_SNAP_CNT_KEYS || (j == BRINK_SNAP_CNT_NOT_HANDED && !follower_)) continue;
      if (counts[j] || j == BRINK_SNAP_CNT_HITS) text += absl::StrFormat("%s%d %s", text.empty() ? "" : ", ", counts[j], kTexts[j]);
    }
    if (counts[BRINK_SNAP_CNT_KEYS] > BRINK_SNAP_MAX_SEEN) text += absl::StrFormat(", %d keys forgotten (of --once-per %d are remembered)", counts[BRINK_SNAP_CNT_KEYS] - BRINK_SNAP_MAX_SEEN, BRINK_SNAP_MAX_SEEN);
    lines.push_back({"trigger_" + std::to_string(i), static_cast<double>(counts[BRINK_SNAP_CNT_TAKEN]), shown_[i].trigger.text + ": " + text});
  }
  for (size_t i = 0; i < objects_.size(); ++i) {
    if (objects_[i]->too_many()) lines.push_back({"trigger_" + std::to_string(i) + "_for_everybody", 1, objects_[i]->how()});
  }
  if (group_failures_) lines.push_back({"group_failures", static_cast<double>(group_failures_), absl::StrFormat("a group's events could not be had at %d looks: %s", group_failures_, group_failure_)});
  if (member_failures_) lines.push_back({"member_failures", static_cast<double>(member_failures_), absl::StrFormat("processes of the groups could not be probed %d times: %s", member_failures_, member_failure_)});
  if (follower_) {
    for (StatLine& line : follower_->Report()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace brink::snap
