// Where a run's branches come from: the hardware, which says what led to a hit, or the walker, which says what follows.
#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "snap/follow.h"
#include "snap/snap_source.h"

namespace brink::snap {

Status SnapSource::ChooseBranches() {
  if (request_.branches == SnapRequest::Branches::kNone) {
    no_branches_ = "not asked for";
    return OkStatus();
  }
  if (request_.branches == SnapRequest::Branches::kWalk) return ChooseFollower();
  using Privilege = SnapRequest::Privilege;
  TriggerSide side = TriggerSide::kUser;
  if (request_.privilege == Privilege::kOfTrigger) {
    bool user = false, kernel = false;
    for (const TriggerPlan& plan : plans_) (plan.trigger.side() == Side::kUser ? user : kernel) = true;
    if (user && kernel) {
      return InvalidArgument("--on mixes triggers of user code and of the kernel: the CPU's branch filter is one; give --priv u, k or ku (with ku most entries of a user trigger are the kernel's way to the probe)");
    }
    side = kernel ? TriggerSide::kKernel : TriggerSide::kUser;
  } else {
    side = request_.privilege == Privilege::kUser ? TriggerSide::kUser : request_.privilege == Privilege::kKernel ? TriggerSide::kKernel : TriggerSide::kBoth;
  }
  auto held = HeldEvents::Open(HeldFlags(side));
  if (!held.ok()) {
    if (request_.branches == SnapRequest::Branches::kLbr) return held.status();
    no_branches_ = Message(held.status());
    // Only where there is none: what is forbidden or in use is another matter.
    const int error = ErrnoOf(held.status());
    const bool absent = error == ENOENT || error == EOPNOTSUPP || error == ENODEV;
    // What it says behind the reason is about recordings: there is no -e here.
    if (absent) no_branches_ = no_branches_.substr(0, no_branches_.find(';'));
    if (absent) FollowByDefault();
    else no_branches_ += "; --source walk shows what follows";
    return OkStatus();
  }
  branch_flags_ = held->flags();
  for (TriggerPlan& plan : plans_) {
    plan.config.flags |= BRINK_SNAP_CFG_SNAPSHOT;
    // Every switch of a thread that is meant costs a snapshot.
    const bool user = !(branch_flags_ & PERF_SAMPLE_BRANCH_KERNEL);
    if (user && plan.trigger.kind == TriggerKind::kSignal && !request_.everybody) plan.config.flags |= BRINK_SNAP_CFG_LEFT;
  }
  return OkStatus();
}

Status SnapSource::ChooseFollower() {
  std::string none;
  bool some = false;
  for (TriggerPlan& plan : plans_) {
    const std::string why = WhyNotFollowed(plan.trigger);
    if (why.empty()) plan.config.flags |= BRINK_SNAP_CFG_FOLLOW;
    else none += (none.empty() ? "" : "; ") + plan.trigger.text + ": " + why;
    some = some || why.empty();
  }
  if (!some) return InvalidArgument("--source walk: " + EscapeForTerminal(none));
  if (!none.empty()) notes_.push_back("--source walk: " + none);
  return MakeFollowerOfPlans();
}

Status SnapSource::MakeFollowerOfPlans() {
  auto configure = [this](bpf_object* object) -> Status {
    RETURN_IF_ERROR(maps_.Reuse(object));
    return ConfigureFollower(object, objects_);
  };
  ASSIGN_OR_RETURN(follower_, MakeFollower(request_.depth, plans_, configure));
  return OkStatus();
}

bool SnapSource::KernelCanFollow() {
  auto types = Types();
  return types.ok() && ((*types)->Function("bpf_task_work_schedule_resume").ok() || (*types)->Function("bpf_task_work_schedule_resume_impl").ok());
}

// Where no hardware says what led to a hit, the walker says what follows: at places of user code in processes that were named.
// Elsewhere a walk costs several times what the hit does, or every process of the machine would wait for its first one.
void SnapSource::FollowByDefault() {
  auto fits = [](const TriggerPlan& plan) {
    const TriggerKind kind = plan.trigger.kind;
    return kind == TriggerKind::kUprobe || kind == TriggerKind::kUretprobe || kind == TriggerKind::kUsdt || kind == TriggerKind::kWatch;
  };
  if (request_.everybody || request_.groups.wants() || std::none_of(plans_.begin(), plans_.end(), fits)) {
    no_branches_ += "; --source walk shows what follows";
    return;
  }
  if (!KernelCanFollow()) {
    no_branches_ += "; what follows can be walked from Linux 6.18 on";
    return;
  }
  for (TriggerPlan& plan : plans_) {
    if (fits(plan)) plan.config.flags |= BRINK_SNAP_CFG_FOLLOW;
  }
  Status made = MakeFollowerOfPlans();
  if (made.ok()) {
    notes_.push_back("the branches are those that follow a hit, walked (--source none leaves them out): " + no_branches_);
    return;
  }
  for (TriggerPlan& plan : plans_) plan.config.flags &= ~static_cast<uint32_t>(BRINK_SNAP_CFG_FOLLOW);
  no_branches_ += "; what follows is not walked: " + Message(made);
}

Status SnapSource::LoadFollower(SourceContext& context) {
  Status loaded = follower_->Load(context);
  if (!loaded.ok() && request_.branches != SnapRequest::Branches::kWalk) {
    // Nobody asked for it.
    follower_.reset();
    no_branches_ += "; what follows is not walked: " + Message(loaded);
    notes_.push_back(no_branches_);
    return OkStatus();
  }
  if (!loaded.ok() && !KernelCanFollow()) return Unimplemented("--source walk needs task work for BPF programs (Linux 6.18)");
  if (!loaded.ok()) return Annotate(loaded, "--source walk");
  for (auto& object : objects_) RETURN_IF_ERROR(object->Follow(follower_->object()));
  return OkStatus();
}

}  // namespace brink::snap
