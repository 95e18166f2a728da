#include "container/hierarchy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/fd.h"
#include "base/strings.h"
#include "kernel/proc_task.h"

namespace brink {
namespace {

// include/linux/exportfs.h: a handle that is a kernfs node id, on every kernfs file system since 5.5.
constexpr int kFileIdKernfs = 0xfe;
constexpr size_t kMostProcesses = 4096;

bool Contains(std::string_view list, std::string_view name) {
  for (std::string_view part : Split(list, ',')) {
    if (part == name) return true;
  }
  return false;
}

std::optional<std::string> ByHandle(const std::string& mount, uint64_t id) {
  struct {
    file_handle head;
    uint64_t id;
  } handle = {};
  handle.head.handle_bytes = sizeof(id);
  handle.head.handle_type = kFileIdKernfs;
  std::memcpy(handle.head.f_handle, &id, sizeof(id));
  UniqueFd root(open(mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return std::nullopt;
  UniqueFd folder(open_by_handle_at(root.get(), &handle.head, O_PATH | O_CLOEXEC));
  if (!folder.valid()) return std::nullopt;
  std::array<char, PATH_MAX> name;
  ssize_t n = readlink(("/proc/self/fd/" + std::to_string(folder.get())).c_str(), name.data(), name.size());
  if (n <= 0) return std::nullopt;
  std::string path(name.data(), static_cast<size_t>(n));
  // The kernel names it as seen from our mount; a removed folder says so.
  if (path.ends_with(" (deleted)") || !path.starts_with(mount)) return std::nullopt;
  path.erase(0, mount.size());
  return path.empty() ? "/" : path;
}

}  // namespace

std::optional<std::string> PathInHierarchy(std::string_view proc_cgroup, const ContainerHierarchy& hierarchy) {
  for (std::string_view line : Split(proc_cgroup, '\n')) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.v2() ? controllers.empty() : Contains(controllers, hierarchy.controller)) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

ContainerHierarchy ChooseHierarchy(const CgroupHierarchies& mounted, const std::vector<std::string>& proc_cgroups) {
  auto count = [&](ContainerHierarchy* hierarchy) {
    std::set<std::string> paths;
    for (const std::string& text : proc_cgroups) {
      if (auto path = PathInHierarchy(text, *hierarchy)) paths.insert(*path);
    }
    hierarchy->groups = paths.size();
  };
  ContainerHierarchy best;
  best.mount = mounted.v2;
  count(&best);
  // Runtimes put every container into each of these; the order breaks ties.
  for (const char* controller : {"memory", "pids", "cpu", "cpuacct", "devices", "freezer", "cpuset", "blkio", "perf_event"}) {
    for (const CgroupHierarchies::V1& v1 : mounted.v1) {
      if (!Contains(v1.controllers, controller)) continue;
      ContainerHierarchy candidate;
      candidate.controller = controller;
      candidate.mount = v1.mount;
      count(&candidate);
      if (candidate.groups > best.groups || best.mount.empty()) best = candidate;
    }
  }
  return best;
}

ContainerHierarchy ChooseHierarchy() {
  std::vector<std::string> texts;
  for (pid_t pid : ListProcesses()) {
    if (texts.size() >= kMostProcesses) break;
    auto text = ReadFile("/proc/" + std::to_string(pid) + "/cgroup");
    if (text.ok()) texts.push_back(*std::move(text));
  }
  return ChooseHierarchy(CgroupHierarchies::Read(), texts);
}

std::vector<ContainerHierarchy> MountedHierarchies() {
  const CgroupHierarchies mounted = CgroupHierarchies::Read();
  std::vector<ContainerHierarchy> all;
  if (!mounted.v2.empty()) all.push_back({.controller = "", .mount = mounted.v2});
  for (const CgroupHierarchies::V1& v1 : mounted.v1) {
    if (!v1.controllers.starts_with("name=")) all.push_back({.controller = v1.controllers.substr(0, v1.controllers.find(',')), .mount = v1.mount});
  }
  return all;
}

StatusOr<uint64_t> CgroupIdOf(const ContainerHierarchy& hierarchy, std::string_view path) {
  std::string folder = hierarchy.mount + std::string(path);
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) return ErrnoError(errno, folder);
  if (!S_ISDIR(info.st_mode)) return InvalidArgument(folder + " is no cgroup: not a folder");
  return info.st_ino;
}

StatusOr<std::string> CgroupPathOf(const ContainerHierarchy& hierarchy, uint64_t id) {
  if (auto path = ByHandle(hierarchy.mount, id)) return *path;
  for (const CgroupFolder& folder : ListCgroups(hierarchy, "/")) {
    if (folder.id == id) return folder.path;
  }
  return NotFound("no cgroup with id " + std::to_string(id) + " in " + hierarchy.Name() + ": it is gone");
}

bool IsGroupBelow(std::string_view path, std::string_view above) {
  return above == "/" || (path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/'));
}

std::vector<CgroupFolder> ListCgroups(const ContainerHierarchy& hierarchy, std::string_view path, size_t limit) {
  std::vector<CgroupFolder> folders;
  auto root = CgroupIdOf(hierarchy, path);
  if (!root.ok()) return folders;
  folders.push_back({*root, std::string(path)});
  // Groups come and go meanwhile: errors end one branch, not the walk.
  for (size_t i = 0; i < folders.size() && folders.size() < limit; ++i) {
    std::string parent = folders[i].path == "/" ? "" : folders[i].path;
    std::error_code error;
    for (std::filesystem::directory_iterator it(hierarchy.mount + parent, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      if (!it->is_directory(ignored) || it->is_symlink(ignored) || folders.size() >= limit) continue;
      std::string child = parent + "/" + it->path().filename().string();
      if (auto id = CgroupIdOf(hierarchy, child); id.ok()) folders.push_back({*id, child});
    }
  }
  return folders;
}

}  // namespace brink
