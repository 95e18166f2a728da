#include "snap/members.h"

#include <bpf/libbpf.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>

#include "base/strings.h"
#include "base/thread.h"
#include "base/units.h"
#include "kernel/proc_task.h"
#include "pipeline/drain.h"

namespace brink::snap {
namespace {

constexpr size_t kMostText = 1 << 20;
constexpr uint64_t kLookNs = 1'000'000'000;
// Told of more at once than this, looking at all of them is less work.
constexpr size_t kMostTold = 1024;

void AddProcesses(const std::string& folder, std::set<pid_t>* pids) {
  // Groups whose threads are spread (threaded) answer with an error: their processes stand in a group above.
  auto text = ReadFile(folder + "/cgroup.procs", kMostText);
  if (!text.ok()) return;
  for (std::string_view line : Split(*text, '\n')) {
    auto pid = ParseUint(line);
    if (pid.ok() && *pid > 0 && *pid <= INT32_MAX && pids->size() < kMostMembersSeen) pids->insert(static_cast<pid_t>(*pid));
  }
}

}  // namespace

std::vector<Member> MembersOf(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups) {
  std::set<pid_t> pids;
  for (const CgroupFolder& group : groups) {
    for (const CgroupFolder& below : ListCgroups(hierarchy, group.path)) AddProcesses(hierarchy.mount + below.path, &pids);
  }
  std::vector<Member> members;
  for (pid_t pid : pids) {
    if (auto member = MemberOf(pid)) members.push_back(*member);
  }
  return members;
}

std::optional<Member> MemberOf(pid_t pid) {
  auto stat = ReadTaskStat(pid);
  // One whose leader has ended has no memory that a probe could be set in, whether others of its threads live or not.
  if (!stat.ok() || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return Member{.pid = pid, .start_time = stat->start_ticks};
}

bool IsMember(const ContainerHierarchy& hierarchy, std::span<const CgroupFolder> groups, pid_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/cgroup", kMostText);
  if (!text.ok()) return false;
  auto path = PathInHierarchy(*text, hierarchy);
  return path && std::any_of(groups.begin(), groups.end(), [&](const CgroupFolder& group) { return IsGroupBelow(*path, group.path); });
}

StatusOr<std::unique_ptr<MemberFollower>> MemberFollower::Start(int ring, OnChange on_change) {
  std::unique_ptr<MemberFollower> follower(new MemberFollower);
  follower->on_change_ = std::move(on_change);
  for (UniqueFd* fd : {&follower->look_, &follower->end_}) {
    *fd = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd->valid()) return ErrnoError(errno, "eventfd");
  }
  auto take = [](void* context, void* data, size_t size) {
    auto* told = static_cast<std::vector<brink_snap_member>*>(context);
    brink_snap_member member;
    if (size < sizeof(member) || told->size() > kMostTold) return 0;
    std::memcpy(&member, data, sizeof(member));
    told->push_back(member);
    return 0;
  };
  follower->ring_ = ring_buffer__new(ring, take, &follower->told_, nullptr);
  if (!follower->ring_) return ErrnoError(errno, "map the ring of processes that come into groups");
  ASSIGN_OR_RETURN(follower->thread_, StartThread("the thread that follows the processes of groups", [raw = follower.get()] { raw->Body(); }));
  return follower;
}

MemberFollower::~MemberFollower() {
  if (thread_.joinable()) {
    ::eventfd_write(end_.get(), 1);
    thread_.join();
  }
  ring_buffer__free(ring_);
}

void MemberFollower::LookSoon() { ::eventfd_write(look_.get(), 1); }

void MemberFollower::Body() {
  pollfd fds[3] = {{.fd = ring_buffer__epoll_fd(ring_), .events = POLLIN, .revents = 0}, {.fd = look_.get(), .events = POLLIN, .revents = 0}, {.fd = end_.get(), .events = POLLIN, .revents = 0}};
  uint64_t next_look_ns = MonotonicNs() + kLookNs;
  while (true) {
    const uint64_t now = MonotonicNs();
    ::poll(fds, 3, now < next_look_ns ? static_cast<int>((next_look_ns - now) / 1'000'000 + 1) : 0);
    if (fds[2].revents) return;
    told_.clear();
    ring_buffer__consume(ring_);
    eventfd_t looks = 0;
    const bool asked = ::eventfd_read(look_.get(), &looks) == 0;
    // Each second, whatever was told: what the ring had no room for, and what ends or comes without being told of.
    if (asked || told_.size() > kMostTold || MonotonicNs() >= next_look_ns) {
      on_change_({});
      next_look_ns = MonotonicNs() + kLookNs;
    } else if (!told_.empty()) {
      on_change_(told_);
    }
  }
}

}  // namespace brink::snap
