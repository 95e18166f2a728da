// One trigger in the kernel: its BPF object, configured and loaded, and its links.
//
// Everything is held by descriptors of this process: closing them, or the end of the process by whatever means, takes
// all of it away. Not thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "brink/abi/snap.h"
#include "container/hierarchy.h"
#include "kernel/perf_event.h"
#include "kernel/uprobe_multi.h"
#include "snap/member_links.h"
#include "snap/places.h"
#include "snap/shared_maps.h"
#include "snap/trigger.h"
#include "snapshot/capture_path.h"

struct bpf_link;
struct bpf_object;
struct bpf_program;
struct snap_bpf;

namespace brink::snap {

using SnapCounts = std::array<uint64_t, BRINK_SNAP_CNT_MAX>;

// What is to be loaded.
struct TriggerPlan {
  Trigger trigger;
  brink_snap_config config = {};
  std::string program;          // user triggers: file to attach to
  std::string shown_program;    // its name for people
  std::shared_ptr<UniqueFd> program_file;  // holds it where it is another root's
  std::vector<Place> places;    // user triggers
  size_t left_out = 0;          // places where a probe would break the program
  std::vector<std::string> functions;  // kernel triggers: names (a glob's matches); one as a rule
  uint32_t result_offset = 0;   // fexit
  bool needs_entry = false;     // load and attach the entry's program too
  pid_t pid = -1;               // user triggers: the only process; -1: all
  bool by_member = false;       // user triggers: only in the processes of SetMembers, others do not even see them (where the kernel has uprobe_multi)
  bool by_group = false;        // samples and events: only on the groups of SetGroups, nobody else is interrupted
};

// Whether perf events can be limited to groups of this hierarchy: on v1 each has its own controllers.
bool CanHoldEventsByGroup(const ContainerHierarchy& hierarchy);

class TriggerObject {
 public:
  using Share = std::function<Status(bpf_object*)>;

  // Opens, configures, connects (`share`: the session's ring, counters and task set) and loads. Errors say what the
  // kernel refused, and what can be done.
  static StatusOr<std::unique_ptr<TriggerObject>> Load(const TriggerPlan& plan, const Share& share, SharedMaps& maps);
  ~TriggerObject();
  TriggerObject(const TriggerObject&) = delete;
  TriggerObject& operator=(const TriggerObject&) = delete;

  // Hooks it up. An unknown function is NOT_FOUND with the nearest names.
  Status Attach();
  // Links are closed in parallel: single uprobes take 0.1 s each.
  void Detach();
  // `by_group`, after Attach: opens events on these groups and what is below them, closes those of groups that are no longer meant.
  // An error is that of a group which has none: the others have theirs, and the next call tries again.
  Status SetGroups(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups);
  // Whether the probes are set in each process by itself: asked for, and uprobe_multi is there.
  bool by_member() const { return plan_.by_member && multi_; }
  // `by_member`, after Attach: sets the probes in these processes and takes them away where they are set beside. An error is that
  // of a process that has none; the next call tries again. With more than kMostMembers they are set for everybody from then on.
  Status SetMembers(std::span<const Member> members);
  // One that has come, or has come `anew` by an exec that the kernel's links do not follow; one that has gone elsewhere.
  Status AddMember(const Member& member, bool anew);
  void DropMember(pid_t pid) { member_links_.Drop(pid); }
  // Manual triggers: captures on every CPU now.
  Status Fire();

  // The program of bpf/snap/follow.h that a capture of this trigger is handed over to; nullptr: it cannot be.
  const char* FollowerName() const;
  // Hands captures over to it, from `follower`'s programs. After its load.
  Status Follow(const bpf_object* follower);

  // Hits are none while paused. Any thread, while loaded.
  void Pause(bool paused);

  SnapCounts ReadCounts() const;
  size_t links() const { return links_.size() + fds_.size(); }
  // "uprobe_multi", "64 single kprobes": how it hangs, for the report; "" where there is nothing to say.
  std::string how() const;
  // More processes than kMostMembers: probes are set for everybody, since Attach or since some moment.
  bool too_many() const { return too_many_; }
  size_t members() const { return member_links_.size(); }
  std::vector<CodeRange> ProgramRangesOf() const;

 private:
  TriggerObject() = default;
  Status Open(const Share& share, SharedMaps& maps);
  std::vector<bpf_program*> Programs();
  Status AttachKernel();
  Status AttachKernelMulti(bpf_program* program, bool at_return);
  Status AttachUser();
  Status AttachUserMulti(bpf_program* program, bool at_return, pid_t pid, std::vector<UniqueFd>* links);
  Status LinkPlaces(bpf_program* program, bool at_return, std::span<const Place> places, pid_t pid, std::vector<UniqueFd>* links, std::vector<uint64_t>* refused);
  Status AttachProcess(pid_t pid, std::vector<UniqueFd>* links);
  Status TryPlaces();
  Status AttachEverybody();
  Status AttachEvents();
  StatusOr<std::vector<bpf_link*>> LinkGroup(const perf_event_attr& attr, int folder);
  StatusOr<bpf_link*> LinkEvent(const perf_event_attr& attr, const PerfTarget& target);
  Status Keep(bpf_link* link, const std::string& what);

  TriggerPlan plan_;
  snap_bpf* skeleton_ = nullptr;
  bpf_program* main_ = nullptr;
  bpf_program* entry_ = nullptr;
  bpf_program* leaves_ = nullptr;
  bool multi_ = false;
  size_t refused_ = 0;  // places that cannot be probed
  std::vector<bpf_link*> links_;
  std::vector<UniqueFd> fds_;  // links made without libbpf
  UniqueFd program_;           // user triggers: the file, whose path may lead through the root of a process that ends
  std::map<uint64_t, std::vector<bpf_link*>> group_links_;  // by kernfs id
  MemberLinks member_links_{[this](pid_t pid, std::vector<UniqueFd>* links) { return AttachProcess(pid, links); }};
  bool too_many_ = false;      // members: probes are set for everybody
  std::string how_;
};

// Most processes of groups in which the probes of a trigger are set one by one: each is a descriptor (two with entries), and takes its time
// to go when brink is killed.
inline constexpr size_t kMostMembers = 64;
// Most single probes of one trigger where the kernel has no multi form: each takes 0.1 s to go.
inline constexpr size_t kMostSingleProbes = 64;

}  // namespace brink::snap
