// The triggers of one run as a source of branch stacks: what a session records (docs/snap.md).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sync.h"
#include "container/resolver.h"
#include "session/source.h"
#include "source/walk_source.h"
#include "snap/members.h"
#include "snap/places.h"
#include "snap/side_object.h"
#include "snap/trigger_object.h"
#include "snap/values.h"
#include "snapshot/calibrate.h"
#include "snapshot/held_events.h"

namespace brink::snap {

// Which tasks, by container. Words are the user's.
struct GroupRequest {
  std::vector<std::string> containers, pods, cgroups;
  std::vector<std::string> not_containers, not_pods, not_cgroups;
  pid_t pidns_of = 0;  // only tasks of this process's pid namespace; 0: any

  bool probe_all = false;  // user probes of groups: in the file, for everybody who runs it; else in each process of the groups

  bool wants() const { return !containers.empty() || !pods.empty() || !cgroups.empty(); }
  bool excludes() const { return !not_containers.empty() || !not_pods.empty() || !not_cgroups.empty(); }
};

struct SnapRequest {
  std::vector<std::string> triggers;    // --on
  std::string condition;                // --if, of every trigger
  std::optional<uint64_t> slower_ns;
  uint64_t nth = 1, count = 0, limit = 0;
  std::string once_per;                 // pid tid cpu uid comm container ip args.NAME ret
  bool chain_kernel = true, chain_user = true;
  bool history = false, history_irqs = false;
  enum class Branches { kAuto, kLbr, kWalk, kNone } branches = Branches::kAuto;
  uint32_t depth = 0;                   // kWalk: most branches; 0: the walker's default
  enum class Privilege { kOfTrigger, kUser, kKernel, kBoth } privilege = Privilege::kOfTrigger;
  std::string errno_path;               // system call whose errors are to be explained; "" none
  GroupRequest groups;
  std::string runtime_root;
  bool everybody = false;               // the target is the whole machine, and no group is asked for
  pid_t pid = -1;                       // the only process asked for, where there is one: its files, its probes
};

// One trigger as it will be shown.
struct ShownTrigger {
  Trigger trigger;
  std::vector<Value> values;          // by slot
  std::vector<std::string> strings;   // by number
};

class SnapSource : public StackSource {
 public:
  // Parses, looks everything up and checks it against this machine, loads nothing. Usage errors are INVALID_ARGUMENT;
  // ErrorText has the text that a column refers to.
  static StatusOr<std::unique_ptr<SnapSource>> Create(SnapRequest request);

  SourceTraits traits() const override;
  Status Prepare(SourceContext& context) override;
  Status Load(SourceContext& context) override;
  Status Start(SourceContext& context) override;
  void OnRecord(std::span<const std::byte> record) override;
  void OnSample(const brink_sample& sample) override;
  uint64_t OldestUnderWay() override;
  void OnProcessChange(pid_t tgid, bool exited) override;
  void OnTick(uint64_t now_ns) override;
  void Stop() override;
  std::vector<StatLine> Report() override;

  // Groups that were made since the last call: (id, path below the hierarchy's root). Any thread.
  std::vector<std::pair<uint64_t, std::string>> TakeNewGroups();
  // Nothing is captured while paused (the agent's budget). Any thread.
  void Pause(bool paused);
  // PERF_SAMPLE_BRANCH_* of the branch events that are to be held; 0: none. There is one such filter a CPU.
  uint64_t branch_flags() const { return branch_flags_; }
  // manual triggers: capture now. Any thread but one at a time.
  Status Fire();
  // The entries of a sample of `trigger` that are true and not brink's own way to the helper.
  std::span<const BranchEntry> Trim(uint32_t trigger, std::span<const BranchEntry> entries) const;

  const std::vector<ShownTrigger>& shown() const { return shown_; }
  const ContainerHierarchy& hierarchy() const { return hierarchy_; }
  // What was chosen, and why not otherwise: for the report. After Load.
  const std::vector<std::string>& notes() const { return notes_; }
  // Why there are no branch stacks; "" where there are.
  const std::string& no_branches() const { return no_branches_; }
  // What follows a capture is walked, and comes as a sample of its own: IsFollowUp.
  bool follows() const { return follower_ != nullptr; }
  // Why a capture of `trigger` has no branches though follows().
  std::string WhyNoFollowUp(uint32_t trigger) const;

 private:
  SnapSource() = default;
  Status AddErrnoPath();
  Status AddTrigger(const std::string& text);
  Status PlanTrigger(Trigger trigger);
  Status ConfigureValues(const Trigger& trigger, TriggerPlan* plan);
  Status ConfigureKey(ValueTable* values, brink_snap_config* config);
  Status ChooseBranches();
  Status ChooseFollower();
  Status MakeFollowerOfPlans();
  void FollowByDefault();
  bool KernelCanFollow();
  StatusOr<UserProgram> FindProgramOf(const Trigger& trigger);
  std::vector<CgroupFolder> WantedNow();
  std::string BelowMount(std::string path) const;
  Status ConfigureGroups(brink_snap_config* config);
  Status ChooseHierarchyOfGroups();
  void ChooseEventsByGroup();
  Status FillGroups(int fd);
  Status SetEventGroups();
  void ChooseProbesByMember();
  Status SetMembers();
  Status OnMember(const brink_snap_member& told);
  Status FollowMembers();
  Status RefusedTwice(const Status& status, size_t index) const;
  Status LoadTrigger(size_t index, SourceContext& context);
  Status LoadFollower(SourceContext& context);
  void WaitForWalks();
  StatusOr<KernelTypes*> Types();

  SnapRequest request_;
  std::unique_ptr<KernelTypes> types_;
  std::vector<TriggerPlan> plans_;
  std::vector<ShownTrigger> shown_;
  std::vector<std::unique_ptr<TriggerObject>> objects_;
  std::unique_ptr<SideObject> side_;
  SharedMaps maps_;
  ContainerHierarchy hierarchy_;
  uint32_t subsys_ = 0;
  std::unique_ptr<ContainerResolver> resolver_;
  std::vector<CgroupFolder> wanted_groups_;  // as FillGroups has found them
  std::atomic<uint64_t> next_group_look_ns_ = 0;
  Mutex tick_mutex_;  // a tick is not in the middle of Start or Stop
  bool ticking_ ABSL_GUARDED_BY(tick_mutex_) = false;
  uint64_t group_failures_ = 0;   // ticks at which a group's events could not be had; read after Stop
  std::string group_failure_;
  uint64_t member_failures_ = 0;  // processes that could not be probed; of the thread of members_, read after Stop
  std::string member_failure_;
  Mutex new_groups_mutex_;
  std::vector<std::pair<uint64_t, std::string>> new_groups_ ABSL_GUARDED_BY(new_groups_mutex_);
  std::unique_ptr<WalkSource> follower_;
  std::optional<HeldEvents> held_;
  std::vector<std::optional<CapturePath>> paths_;  // by trigger
  std::optional<KernelCode> code_;
  uint64_t branch_flags_ = 0;
  std::string no_branches_;
  std::vector<std::string> fallbacks_;  // by trigger: why it hangs otherwise than asked; "" as a rule
  std::vector<std::string> notes_;
  std::unique_ptr<MemberFollower> members_;  // where probes are set in each process of the groups. Goes first: its thread uses the others
};

// The expression or trigger that an error of Create points into, and the column; "" when it points nowhere.
std::string ErrorText(const Status& status);

}  // namespace brink::snap
