// Whose hits are wanted: containers, pods and groups, as they are and as they come and go.
#include <bpf/bpf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"
#include "probe/probe.h"
#include "snap/snap_source.h"

namespace brink::snap {
namespace {

constexpr uint64_t kGroupLookNs = 1'000'000'000;
// Processes whose roots and mappings are looked through for a program.
constexpr size_t kMostAsked = 64;

}  // namespace

// Groups that are given by their folders lie where they lie; names are looked for where containers are told apart.
Status SnapSource::ChooseHierarchyOfGroups() {
  hierarchy_ = ChooseHierarchy();
  const GroupRequest& groups = request_.groups;
  std::optional<ContainerHierarchy> given;
  const std::vector<ContainerHierarchy> all = MountedHierarchies();
  for (const std::vector<std::string>* paths : {&groups.cgroups, &groups.not_cgroups}) {
    for (const std::string& path : *paths) {
      // The longest that fits: one hierarchy may be mounted below another.
      auto it = all.end();
      for (auto one = all.begin(); one != all.end(); ++one) {
        const bool fits = path == one->mount || path.starts_with(one->mount + "/");
        if (fits && (it == all.end() || one->mount.size() > it->mount.size())) it = one;
      }
      if (it == all.end()) continue;
      if (given && given->mount != it->mount) return InvalidArgument("--cgroup: " + EscapeForTerminal(path) + " is of hierarchy " + it->Name() + ", another of " + given->Name() + ": a run tests one hierarchy");
      given = *it;
    }
  }
  if (!given || given->mount == hierarchy_.mount) return OkStatus();
  if (!groups.containers.empty() || !groups.pods.empty() || !groups.not_containers.empty() || !groups.not_pods.empty()) {
    return InvalidArgument("--cgroup is of hierarchy " + given->Name() + ", and containers are told apart by " + hierarchy_.Name() + " here: give one of them");
  }
  hierarchy_ = *given;
  return OkStatus();
}

// Samples of one container need not interrupt the others.
void SnapSource::ChooseEventsByGroup() {
  if (!request_.groups.wants()) return;
  auto sampled = [](const TriggerPlan& plan) { return plan.trigger.kind == TriggerKind::kSample || plan.trigger.kind == TriggerKind::kPerf; };
  if (std::none_of(plans_.begin(), plans_.end(), sampled)) return;
  if (!CanHoldEventsByGroup(hierarchy_)) {
    notes_.push_back("samples interrupt everybody, those of others are dropped: perf events cannot be limited to groups of hierarchy " + hierarchy_.Name());
    return;
  }
  for (TriggerPlan& plan : plans_) plan.by_group = sampled(plan);
}

// Nor need a probe in a container's program stop those that run the same file elsewhere.
void SnapSource::ChooseProbesByMember() {
  if (!request_.groups.wants() || request_.pid > 0) return;
  auto probes = [](const TriggerPlan& plan) { return plan.trigger.kind == TriggerKind::kUprobe || plan.trigger.kind == TriggerKind::kUretprobe || plan.trigger.kind == TriggerKind::kUsdt; };
  if (std::none_of(plans_.begin(), plans_.end(), probes)) return;
  const auto can = Feature::kBpfUprobeMultiProcess;
  const bool by_member = !request_.groups.probe_all && ProbeFeatures({.overrides = {}, .only = {can}}).Has(can);
  for (TriggerPlan& plan : plans_) {
    if (probes(plan)) plan.by_member = by_member;
  }
  if (by_member) return;
  notes_.push_back("whoever runs the probed file meets the probe, those of other groups are dropped: " + std::string(request_.groups.probe_all ? "--probe-all" : "this kernel cannot set probes in one process for all of its threads (6.10 can)"));
}

// Before the notes are read: it may say something about itself.
Status SnapSource::SetMembers() {
  if (std::none_of(objects_.begin(), objects_.end(), [](const auto& object) { return object->by_member(); })) return OkStatus();
  std::vector<CgroupFolder> groups;
  {
    MutexLock lock(tick_mutex_);
    groups = wanted_groups_;
  }
  const std::vector<Member> members = MembersOf(hierarchy_, groups);
  Status failed;
  for (auto& object : objects_) {
    if (Status status = object->SetMembers(members); !status.ok()) failed = status;
  }
  return failed;
}

Status SnapSource::OnMember(const brink_snap_member& told) {
  if (std::none_of(objects_.begin(), objects_.end(), [](const auto& object) { return object->by_member(); })) return OkStatus();
  const auto pid = static_cast<pid_t>(told.pid);
  if (told.what == BRINK_SNAP_MEMBER_SPREAD) return SetMembers();
  if (told.what == BRINK_SNAP_MEMBER_MOVED) {
    std::vector<CgroupFolder> groups;
    {
      MutexLock lock(tick_mutex_);
      groups = wanted_groups_;
    }
    if (!IsMember(hierarchy_, groups, pid)) {
      for (auto& object : objects_) object->DropMember(pid);
      return OkStatus();
    }
  }
  auto member = MemberOf(pid);
  if (!member) return OkStatus();
  Status failed;
  for (auto& object : objects_) {
    if (Status status = object->AddMember(*member, told.what == BRINK_SNAP_MEMBER_RENEWED); !status.ok()) failed = status;
  }
  return failed;
}

Status SnapSource::FollowMembers() {
  if (std::none_of(objects_.begin(), objects_.end(), [](const auto& object) { return object->by_member(); })) return OkStatus();
  auto count = [this](const Status& status) {
    if (status.ok()) return;
    ++member_failures_;
    member_failure_ = Message(status);
  };
  auto on_change = [this, count](std::span<const brink_snap_member> told) {
    if (told.empty()) count(SetMembers());
    for (const brink_snap_member& member : told) count(OnMember(member));
  };
  ASSIGN_OR_RETURN(members_, MemberFollower::Start(side_->members_fd(), on_change));
  return OkStatus();
}

Status SnapSource::ConfigureGroups(brink_snap_config* config) {
  const GroupRequest& groups = request_.groups;
  if (!hierarchy_.v2()) {
    auto types = Types();
    auto index = types.ok() ? (*types)->Enumerator(hierarchy_.controller + "_cgrp_id") : std::nullopt;
    // cpuset_cgrp_id and the like; blkio is "io" inside the kernel.
    if (!index && types.ok() && hierarchy_.controller == "blkio") index = (*types)->Enumerator("io_cgrp_id");
    if (index) {
      subsys_ = *index;
      config->subsys = *index;
      config->flags |= BRINK_SNAP_CFG_V1;
    }
  }
  if (groups.wants()) config->flags |= BRINK_SNAP_CFG_CGROUPS;
  if (groups.excludes()) config->flags |= BRINK_SNAP_CFG_NOT_CGROUPS;
  if (groups.pidns_of) {
    struct stat info;
    std::string path = "/proc/" + std::to_string(groups.pidns_of) + "/ns/pid";
    if (stat(path.c_str(), &info) != 0) return NotFound("--pidns: no process " + std::to_string(groups.pidns_of));
    config->pidns = static_cast<uint32_t>(info.st_ino);
    config->flags |= BRINK_SNAP_CFG_PIDNS;
  }
  return OkStatus();
}

// --cgroup takes a path below the hierarchy's root, or the folder's whole path.
std::string SnapSource::BelowMount(std::string path) const {
  if (path.starts_with(hierarchy_.mount + "/")) path.erase(0, hierarchy_.mount.size());
  if (!path.starts_with('/')) path.insert(0, "/");
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // as completion writes it
  return path;
}

// Those that are there; what is wrong with the others FillGroups says.
std::vector<CgroupFolder> SnapSource::WantedNow() {
  std::vector<CgroupFolder> folders;
  for (bool pod : {false, true}) {
    for (const std::string& word : pod ? request_.groups.pods : request_.groups.containers) {
      auto found = resolver_->Find(word, pod);
      if (found.ok()) folders.insert(folders.end(), found->begin(), found->end());
    }
  }
  for (const std::string& path : request_.groups.cgroups) folders.push_back({.id = 0, .path = BelowMount(path)});
  return folders;
}

// A container has files of its own: PATH is looked for in the root of its processes first. One file is probed: what the others have is said.
StatusOr<UserProgram> SnapSource::FindProgramOf(const Trigger& trigger) {
  if (request_.pid > 0 || !request_.groups.wants()) return FindProgram(trigger.path, request_.pid);
  std::vector<Member> members = MembersOf(hierarchy_, WantedNow());
  members.resize(std::min(members.size(), kMostAsked));
  std::optional<UserProgram> found;
  struct stat taken = {};
  for (const Member& member : members) {
    auto program = FindProgram(trigger.path, member.pid);
    struct stat theirs = {}, ours = {};
    if (!program.ok() || !program->file || fstat(program->file->get(), &theirs) != 0) continue;
    auto same = [&](const struct stat& other) { return other.st_dev == theirs.st_dev && other.st_ino == theirs.st_ino; };
    if (found && same(taken)) continue;
    if (found) {
      notes_.push_back("process " + std::to_string(member.pid) + " has another file " + program->shown + ", which is not probed: give --on for one container at a time");
      break;
    }
    taken = theirs;
    if (stat(program->shown.c_str(), &ours) == 0 && same(ours)) {
      found = UserProgram{program->shown, program->shown, nullptr};
      continue;
    }
    notes_.push_back(trigger.path + " is the one of process " + std::to_string(member.pid) + " (" + program->shown + " in its root)");
    found = *std::move(program);
  }
  if (found) return *std::move(found);
  auto hosts = FindProgram(trigger.path, -1);
  if (hosts.ok()) notes_.push_back(trigger.path + " is the host's " + hosts->shown + ": no process of the groups has such a file now");
  return hosts;
}

// Groups as they are now. Names that answer to nothing yet are looked for again each second: a container may come later.
Status SnapSource::FillGroups(int fd) {
  const GroupRequest& request = request_.groups;
  wanted_groups_.clear();
  auto put = [&](const std::vector<CgroupFolder>& folders, uint32_t what) -> Status {
    for (const CgroupFolder& folder : folders) {
      if (what == BRINK_SNAP_GROUP_WANTED) wanted_groups_.push_back(folder);
      if (bpf_map_update_elem(fd, &folder.id, &what, BPF_ANY) != 0) return ErrnoError(errno, "fill the cgroup filter");
    }
    return OkStatus();
  };
  auto by_name = [&](const std::vector<std::string>& words, bool pod, uint32_t what) -> Status {
    for (const std::string& word : words) {
      auto found = resolver_->Find(word, pod);
      if (found.ok()) {
        RETURN_IF_ERROR(put(*found, what));
      } else if (next_group_look_ns_ == 0) {
        notes_.push_back(Message(found.status()) + "; waiting for it");
      }
    }
    return OkStatus();
  };
  auto by_path = [&](const std::vector<std::string>& paths, uint32_t what) -> Status {
    for (const std::string& given : paths) {
      const std::string path = BelowMount(given);
      auto id = CgroupIdOf(hierarchy_, path);
      if (!id.ok()) return Annotate(id.status(), "--cgroup (hierarchy " + hierarchy_.Name() + ")");
      RETURN_IF_ERROR(put({{*id, path}}, what));
    }
    return OkStatus();
  };
  RETURN_IF_ERROR(by_name(request.containers, false, BRINK_SNAP_GROUP_WANTED));
  RETURN_IF_ERROR(by_name(request.pods, true, BRINK_SNAP_GROUP_WANTED));
  RETURN_IF_ERROR(by_name(request.not_containers, false, BRINK_SNAP_GROUP_EXCLUDED));
  RETURN_IF_ERROR(by_name(request.not_pods, true, BRINK_SNAP_GROUP_EXCLUDED));
  RETURN_IF_ERROR(by_path(request.cgroups, BRINK_SNAP_GROUP_WANTED));
  return by_path(request.not_cgroups, BRINK_SNAP_GROUP_EXCLUDED);
}

Status SnapSource::SetEventGroups() {
  Status failed;
  for (auto& object : objects_) {
    if (Status status = object->SetGroups(hierarchy_, wanted_groups_); !status.ok()) failed = status;
  }
  return failed;
}

std::vector<std::pair<uint64_t, std::string>> SnapSource::TakeNewGroups() {
  MutexLock lock(new_groups_mutex_);
  return std::exchange(new_groups_, {});
}

void SnapSource::OnTick(uint64_t now_ns) {
  MutexLock lock(tick_mutex_);
  if (!ticking_ || now_ns < next_group_look_ns_) return;
  next_group_look_ns_ = now_ns + kGroupLookNs;
  if (held_) (void)held_->Refresh();
  if (!request_.groups.containers.empty() || !request_.groups.pods.empty() || !request_.groups.not_containers.empty() || !request_.groups.not_pods.empty()) {
    // Groups come and go: what fails now is tried again.
    auto same = [](const CgroupFolder& a, const CgroupFolder& b) { return a.id == b.id; };
    const std::vector<CgroupFolder> before = wanted_groups_;
    (void)FillGroups(maps_.groups_fd());
    if (members_ && !std::equal(before.begin(), before.end(), wanted_groups_.begin(), wanted_groups_.end(), same)) members_->LookSoon();
    if (Status failed = SetEventGroups(); !failed.ok()) {
      ++group_failures_;
      group_failure_ = Message(failed);
    }
  }
}

}  // namespace brink::snap
