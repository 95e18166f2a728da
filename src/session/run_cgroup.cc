#include "session/run_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/strings.h"
#include "kernel/perf_event.h"

namespace brink {
namespace {

constexpr std::string_view kPrefix = "brink-run-";

std::string OwnV2Folder(const SessionMounts& mounts) {
  auto text = ReadFile("/proc/self/cgroup");
  std::string path = text.ok() ? ParseV2Path(*text) : "";
  if (path.empty() || path.substr(0, 4) == "/..") return {};  // outside of what our cgroup namespace shows
  return mounts.v2 + (path == "/" ? "" : path);
}

// Groups of collectors that were killed: empty ones of processes that no longer exist.
void RemoveStale(const std::string& parent) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(parent.c_str()), closedir);
  if (!dir) return;
  while (const dirent* entry = readdir(dir.get())) {
    std::string_view name = entry->d_name;
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    pid_t pid = 0;
    std::string_view digits = name.substr(kPrefix.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), pid);
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) rmdir((parent + "/" + std::string(name)).c_str());
  }
}

Status MoveTo(const std::string& folder, pid_t pid) {
  ASSIGN_OR_RETURN(UniqueFd procs, OpenFile(folder + "/cgroup.procs", O_WRONLY));
  std::string text = std::to_string(pid);
  if (write(procs.get(), text.data(), text.size()) < 0) return ErrnoError(errno, "move a process to " + folder);
  return OkStatus();
}

// A group made where nobody ever wrote cgroup.subtree_control has no perf_event state (measured in a bare guest on 6.12:
// ENOENT): then the set of processes in BPF serves.
Status TryEvent(int group) {
  ASSIGN_OR_RETURN(EventSpec clock, ParseEvent("cpu-clock"));
  int fd = RawPerfEventOpen(MakeAttr(clock, {}), {.pid = group, .cpu = sched_getcpu(), .flags = PERF_FLAG_PID_CGROUP});
  if (fd < 0) return FailedPrecondition(Message(ErrnoError(-fd, "open an event of a new cgroup")));
  close(fd);
  return OkStatus();
}

}  // namespace

SessionMounts ParseCgroupMounts(std::string_view mounts) {
  SessionMounts found;
  for (std::string_view line : Split(mounts, '\n')) {
    std::vector<std::string_view> fields = Split(line, ' ');
    if (fields.size() < 4) continue;
    if (fields[2] == "cgroup2" && found.v2.empty()) found.v2 = std::string(fields[1]);
    if (fields[2] != "cgroup") continue;
    for (std::string_view option : Split(fields[3], ',')) {
      if (option == "perf_event") found.perf_event = std::string(fields[1]);
    }
  }
  return found;
}

SessionMounts ReadCgroupMounts() {
  auto text = ReadFile("/proc/self/mounts");
  return text.ok() ? ParseCgroupMounts(*text) : SessionMounts();
}

std::string ParseV2Path(std::string_view proc_cgroup) {
  for (std::string_view line : Split(proc_cgroup, '\n')) {
    if (line.substr(0, 3) == "0::") return std::string(line.substr(3));
  }
  return {};
}

StatusOr<std::unique_ptr<RunCgroup>> RunCgroup::Make(const SessionMounts& mounts) {
  if (mounts.v2.empty()) return FailedPrecondition("no cgroup v2 hierarchy is mounted");
  if (!mounts.perf_event.empty()) return FailedPrecondition("the perf_event controller is on a cgroup v1 hierarchy");
  std::string parent = OwnV2Folder(mounts);
  if (parent.empty()) return FailedPrecondition("our own cgroup is not visible");
  RemoveStale(parent);
  std::unique_ptr<RunCgroup> group(new RunCgroup);
  std::string path = parent + "/" + std::string(kPrefix) + std::to_string(getpid());
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return FailedPrecondition(Message(ErrnoError(errno, "make the cgroup " + path)));
  }
  group->path_ = path;
  group->parent_ = parent;
  ASSIGN_OR_RETURN(group->fd_, OpenFile(path, O_RDONLY | O_DIRECTORY));
  RETURN_IF_ERROR(TryEvent(group->fd_.get()));
  return group;
}

RunCgroup::~RunCgroup() {
  if (path_.empty()) return;
  // Daemons that the command left behind go on in the parent. New ones may appear while we move: a few turns.
  for (int turn = 0; turn < 8; ++turn) {
    if (rmdir(path_.c_str()) == 0 || errno != EBUSY) return;
    auto text = ReadFile(path_ + "/cgroup.procs");
    if (!text.ok()) continue;
    for (std::string_view line : Split(*text, '\n')) {
      pid_t pid = 0;
      std::from_chars(line.data(), line.data() + line.size(), pid);
      if (pid > 0) (void)MoveTo(parent_, pid);
    }
  }
}

Status RunCgroup::Add(pid_t pid) { return MoveTo(path_, pid); }

CpuTime RunCgroup::ReadCpuTime() const {
  CpuTime time;
  auto text = ReadFile(path_ + "/cpu.stat");
  if (!text.ok()) return time;
  for (std::string_view line : Split(*text, '\n')) {
    size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    std::string_view key = line.substr(0, blank);
    uint64_t us = 0;
    std::from_chars(line.data() + blank + 1, line.data() + line.size(), us);
    if (key == "user_usec") time.user_ns = us * 1000;
    if (key == "system_usec") time.system_ns = us * 1000;
  }
  return time;
}

StatusOr<UniqueFd> OpenCgroup(const SessionMounts& mounts, std::string_view name) {
  const std::string& mount = mounts.perf_event.empty() ? mounts.v2 : mounts.perf_event;
  if (mount.empty()) return FailedPrecondition("no cgroup hierarchy with perf_event is mounted");
  std::string path(name);
  if (path.compare(0, mount.size(), mount) != 0) path = mount + (path.empty() || path[0] != '/' ? "/" : "") + path;
  struct stat st;
  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return NotFound("cgroup '" + EscapeForTerminal(name) + "': no folder " + EscapeForTerminal(path));
  }
  return OpenFile(path, O_RDONLY | O_DIRECTORY);
}

}  // namespace brink
