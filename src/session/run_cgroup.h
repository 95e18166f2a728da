// Cgroups: a v2 group made for the run of a command, and the groups that `-G` names.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "session/cpu_time.h"

namespace brink {

// Mount points of cgroup hierarchies, from the text of /proc/self/mounts.
struct SessionMounts {
  std::string v2;          // "" when there is none
  std::string perf_event;  // v1 hierarchy with the perf_event controller; "" when it is on v2 (or nowhere)
};
SessionMounts ParseCgroupMounts(std::string_view mounts);
SessionMounts ReadCgroupMounts();
// The "0::" line of /proc/PID/cgroup; "" when there is none.
std::string ParseV2Path(std::string_view proc_cgroup);

// A leaf below our own group, so that every limit that held for the command still holds. Removed with this object;
// processes that are still in it then go back to the parent.
class RunCgroup {
 public:
  // FAILED_PRECONDITION where it cannot be made (no v2 hierarchy, read-only, no rights): the caller uses the task set.
  static StatusOr<std::unique_ptr<RunCgroup>> Make(const SessionMounts& mounts);
  ~RunCgroup();
  RunCgroup(const RunCgroup&) = delete;
  RunCgroup& operator=(const RunCgroup&) = delete;

  Status Add(pid_t pid);
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  // User and system time of everything that ever ran in it; 0 where the kernel does not tell.
  CpuTime ReadCpuTime() const;

 private:
  RunCgroup() = default;
  std::string path_, parent_;
  UniqueFd fd_;
};

// Opens the group that a user names: a path below the hierarchy that has perf_event (with or without the mount point).
StatusOr<UniqueFd> OpenCgroup(const SessionMounts& mounts, std::string_view name);

}  // namespace brink
