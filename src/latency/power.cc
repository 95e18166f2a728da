#include "latency/power.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/strings.h"
#include "base/units.h"
#include "kernel/proc_task.h"

namespace brink::latency {
namespace {

constexpr const char* kNoteDir = "/run/brink";
constexpr std::string_view kNotePrefix = "idle-states.";

bool WriteOne(const std::string& path, std::string_view text) {
  auto fd = OpenFile(path, O_WRONLY);
  return fd.ok() && WriteAll(fd->get(), text.data(), text.size()).ok();
}

}  // namespace

PowerHold::~PowerHold() {
  for (const std::string& path : disabled_) WriteOne(path, "0");
  if (!note_.empty()) ::unlink(note_.c_str());
}

PowerHold::Outcome PowerHold::Take(const Config& config, const std::vector<int>& cpus) {
  if (config.power == Power::kSystem) return {};
  if (config.power == Power::kIdleStates) return DisableIdleStates(config.deepest_idle_state, cpus);
  auto fd = OpenFile("/dev/cpu_dma_latency", O_RDWR);
  if (!fd.ok()) {
    int error = ErrnoOf(fd.status());
    if (error == ENOENT) return {"", "stat /dev/cpu_dma_latency failed: No such file or directory"};
    return {"", absl::StrFormat("open /dev/cpu_dma_latency: %s; idle states stay as they are", std::strerror(error))};
  }
  int32_t value = config.dma_latency_us;
  if (!WriteAll(fd->get(), &value, sizeof value).ok()) {
    return {"", absl::StrFormat("# error setting cpu_dma_latency to %d!: %s", value, std::strerror(errno))};
  }
  dma_ = std::move(*fd);
  return {absl::StrFormat("# /dev/cpu_dma_latency set to %dus", value), ""};
}

PowerHold::Outcome PowerHold::DisableIdleStates(int64_t deepest, const std::vector<int>& cpus) {
  std::vector<std::string> changes;
  bool any = false;
  for (int cpu : cpus) {
    for (int state = 0; state < 32; ++state) {
      std::string path = absl::StrFormat("/sys/devices/system/cpu/cpu%d/cpuidle/state%d/disable", cpu, state);
      auto text = ReadFile(path, 16);
      if (!text.ok()) break;
      any = true;
      // -1: all of them; state 0 is polling where the driver has it.
      if (state > deepest && Trim(*text) == "0") changes.push_back(path);
    }
  }
  if (!any) return {"", "this machine offers no idle states to disable (no cpuidle driver)"};
  // The note first: who is killed in between must be cleaned up after.
  ::mkdir(kNoteDir, 0700);
  note_ = absl::StrFormat("%s/%s%d", kNoteDir, kNotePrefix, ::getpid());
  std::string text;
  for (const std::string& path : changes) text += path + "\n";
  auto note = OpenFile(note_, O_WRONLY | O_CREAT | O_TRUNC);
  if (!note.ok() || !WriteAll(note->get(), text.data(), text.size()).ok()) return {"", "idle states are not changed: " + note_ + " cannot be written to restore them after a kill"};
  for (const std::string& path : changes) {
    if (!WriteOne(path, "1")) return {"", path + ": cannot be written; run as root"};
    disabled_.push_back(path);
  }
  return {absl::StrFormat("# idle states deeper than %d disabled on %d CPUs", deepest, cpus.size()), ""};
}

int RestoreIdleStates(const std::string& note_dir) {
  int restored = 0;
  DIR* dir = ::opendir(note_dir.c_str());
  if (!dir) return 0;
  while (struct dirent* entry = ::readdir(dir)) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(kNotePrefix)) continue;
    auto pid = ParseUint(name.substr(kNotePrefix.size()));
    if (!pid.ok() || *pid > INT32_MAX || ::kill(static_cast<pid_t>(*pid), 0) == 0 || errno != ESRCH) continue;
    std::string note = note_dir + "/" + std::string(name);
    auto text = ReadFile(note, 1 << 20);
    if (text.ok()) {
      for (std::string_view path : Split(*text, '\n')) {
        // Only what such a note can hold: it is a file of root's, but what it names is written to.
        if (path.starts_with("/sys/devices/system/cpu/cpu") && path.ends_with("/disable") && path.find("..") == std::string_view::npos) {
          restored += WriteOne(std::string(path), "0");
        }
      }
    }
    ::unlink(note.c_str());
  }
  ::closedir(dir);
  return restored;
}

}  // namespace brink::latency
