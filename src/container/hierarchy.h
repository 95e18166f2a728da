// Which cgroup tells containers apart on this host, and names for its ids.
//
// A container's key is (hierarchy, kernfs id), the id being the folder's inode number. Where everything is on cgroup v2
// that is the v2 id. On v1 and hybrid hosts all processes may share one v2 group (then bpf_get_current_cgroup_id() is the
// same for everybody); there the v1 controller in which processes differ is taken.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernel/cgroup_hierarchies.h"

namespace brink {

struct ContainerHierarchy {
  std::string controller;  // "memory", "pids", "name=systemd"; "" = cgroup v2
  std::string mount;       // folder of the hierarchy; "" when none is mounted
  size_t groups = 0;       // distinct groups that processes were in when it was chosen

  bool v2() const { return controller.empty(); }
  // "v2" or the controller: for doctor and headings.
  std::string Name() const { return v2() ? "v2" : controller; }
};

// Path of `pid`'s group from the text of its /proc/PID/cgroup; nothing where it has none in this hierarchy.
std::optional<std::string> PathInHierarchy(std::string_view proc_cgroup, const ContainerHierarchy& hierarchy);

// The hierarchy with most distinct groups among `proc_cgroups` (texts of /proc/*/cgroup); v2 when it is as good as any.
// Of the v1 controllers only those that a BPF program can read by name (not name=systemd).
ContainerHierarchy ChooseHierarchy(const CgroupHierarchies& mounted, const std::vector<std::string>& proc_cgroups);
// On this host.
ContainerHierarchy ChooseHierarchy();

// Those that are mounted here and that a BPF program can read.
std::vector<ContainerHierarchy> MountedHierarchies();

// Folder's kernfs id; NOT_FOUND when there is none.
StatusOr<uint64_t> CgroupIdOf(const ContainerHierarchy& hierarchy, std::string_view path);
// Path of the group with this id: by file handle where allowed, else by searching the tree. NOT_FOUND: it is gone.
StatusOr<std::string> CgroupPathOf(const ContainerHierarchy& hierarchy, uint64_t id);
// Whether the group at `path` is the one at `above`, or lies below it.
bool IsGroupBelow(std::string_view path, std::string_view above);
// Every group at and below `path`, with ids, parents first; at most `limit`.
struct CgroupFolder {
  uint64_t id = 0;
  std::string path;
};
std::vector<CgroupFolder> ListCgroups(const ContainerHierarchy& hierarchy, std::string_view path, size_t limit = 65536);

}  // namespace brink
