#include "kernel/cgroup_hierarchies.h"

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

bool HasController(std::string_view list, std::string_view controller) {
  for (std::string_view name : Split(list, ',')) {
    if (name == controller) return true;
  }
  return false;
}

// A cgroup namespace shows paths relative to its root; a path above that root begins with "/..".
std::string Join(const std::string& mount, const std::string& path) {
  if (path.empty() || path == "/" || path.find("/..") == 0) return mount;
  return mount + path;
}

}  // namespace

std::string CgroupHierarchies::PerfEventFolder() const {
  for (const V1& mount : v1) {
    if (HasController(mount.controllers, "perf_event")) return Join(mount.mount, mount.own_path);
  }
  return v2.empty() || perf_event_on_v1 ? "" : Join(v2, own_v2_path);
}

CgroupHierarchies CgroupHierarchies::Parse(std::string_view mountinfo, std::string_view cgroup) {
  CgroupHierarchies mounts;
  struct Own {
    std::string controllers, path;
  };
  std::vector<Own> own;
  for (std::string_view line : Split(cgroup, '\n')) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    std::string controllers(line.substr(first + 1, second - first - 1)), path(line.substr(second + 1));
    if (controllers.empty()) mounts.own_v2_path = path;
    own.push_back({controllers, path});
  }
  for (std::string_view line : Split(mountinfo, '\n')) {
    size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    auto head = Split(line.substr(0, dash), ' ');
    auto tail = Split(line.substr(dash + 3), ' ');
    if (head.size() < 5 || tail.size() < 3) continue;
    std::string where(head[4]);
    if (tail[0] == "cgroup2" && mounts.v2.empty()) mounts.v2 = where;
    if (tail[0] != "cgroup") continue;
    for (const Own& group : own) {
      // The super block's options hold the controllers; /proc/self/cgroup says them in one word.
      bool match = !group.controllers.empty();
      for (std::string_view name : Split(group.controllers, ',')) match = match && HasController(tail[2], name);
      if (!match) continue;
      mounts.v1.push_back({group.controllers, where, group.path});
      mounts.perf_event_on_v1 = mounts.perf_event_on_v1 || HasController(group.controllers, "perf_event");
      break;
    }
  }
  return mounts;
}

CgroupHierarchies CgroupHierarchies::Read() {
  auto mountinfo = ReadFile("/proc/self/mountinfo");
  auto cgroup = ReadFile("/proc/self/cgroup");
  return Parse(mountinfo.ok() ? *mountinfo : "", cgroup.ok() ? *cgroup : "");
}

}  // namespace brink
