// Which processes are in groups, and who comes into them: for probes that are set in each of them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "brink/abi/snap.h"
#include "container/hierarchy.h"

struct ring_buffer;

namespace brink::snap {

struct Member {
  pid_t pid = 0;            // thread group, as this process sees it
  uint64_t start_time = 0;  // in clock ticks since boot: with the pid it names the process for good
};

// More processes than this are not looked at.
inline constexpr size_t kMostMembersSeen = 16384;

// Those in the groups and in groups below. What goes away meanwhile is left out.
std::vector<Member> MembersOf(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups);
// Nothing: it has ended.
std::optional<Member> MemberOf(pid_t pid);
// Whether the process is in one of the groups or below.
bool IsMember(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups, pid_t pid);

// A thread that is woken by the kernel as soon as a process comes into the groups. Not the session's ring: what lies there waits for
// its turn, and a program that has just been started may be over by then.
class MemberFollower {
 public:
  // In the thread. `told`: what the kernel has said since the last call; empty: look at all of them, each second and after LookSoon.
  using OnChange = std::function<void(std::span<const brink_snap_member> told)>;

  // `ring`: the map snap_members.
  static StatusOr<std::unique_ptr<MemberFollower>> Start(int ring, OnChange on_change);
  // Ends the thread: no call is under way afterwards.
  ~MemberFollower();
  // Any thread.
  void LookSoon();

 private:
  MemberFollower() = default;
  void Body();

  OnChange on_change_;
  ring_buffer* ring_ = nullptr;
  UniqueFd look_, end_;  // eventfds
  std::vector<brink_snap_member> told_;
  std::thread thread_;
};

}  // namespace brink::snap
