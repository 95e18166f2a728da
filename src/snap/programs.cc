// Which file a trigger's PATH means.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <absl/strings/str_replace.h>

#include "base/fd.h"
#include "base/open_in_root.h"
#include "base/strings.h"
#include "kernel/proc_maps.h"
#include "snap/places.h"

namespace brink::snap {
namespace {

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// A wrapper (python3 of a version manager) is no program to probe.
bool IsScript(const std::string& path) {
  auto file = OpenFile(path, O_RDONLY);
  char begin[2] = {};
  return file.ok() && read(file->get(), begin, 2) == 2 && begin[0] == '#' && begin[1] == '!';
}

// libc -> libc.so.6, libc-2.31.so; bash -> bash. Of the process's own program: python3 -> python3.11.
bool NamesFile(std::string_view name, std::string_view file, bool program) {
  if (file == name) return true;
  if (!file.starts_with(name)) return false;
  const char next = file[name.size()];
  if (program && (next == '.' || std::isdigit(static_cast<unsigned char>(next)))) return true;
  return file.find(".so") != std::string_view::npos && (next == '.' || next == '-');
}

// A file of the process's root, held open: whoever names it may end, and a link in a container means the container's file. `shown` is
// the name that the process's mappings have for it.
std::optional<UserProgram> Inside(pid_t pid, const std::string& path) {
  auto root = OpenFile("/proc/" + std::to_string(pid) + "/root", O_PATH | O_DIRECTORY);
  if (!root.ok()) return std::nullopt;
  auto file = OpenInRoot(root->get(), path, O_RDONLY | O_NONBLOCK);
  struct stat info = {};
  if (!file.ok() || fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  UserProgram program = {.path = "/proc/self/fd/" + std::to_string(file->get()), .shown = path, .file = std::make_shared<UniqueFd>(*std::move(file))};
  char name[PATH_MAX];
  const ssize_t size = readlink(program.path.c_str(), name, sizeof(name));
  if (size > 0) program.shown.assign(name, static_cast<size_t>(size));
  return program;
}

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string ProgramOf(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t size = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

// Names of files with code that the process has mapped, each once.
std::vector<std::string> CodeOf(pid_t pid) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  auto maps = ReadMaps(pid);
  for (const Mapping& mapping : maps.ok() ? *maps : std::vector<Mapping>{}) {
    if (mapping.executable && mapping.path.starts_with('/') && seen.insert(mapping.path).second) files.push_back(mapping.path);
  }
  return files;
}

}  // namespace

StatusOr<UserProgram> FindProgram(const std::string& path, pid_t pid) {
  if (path.find('/') != std::string::npos) {
    std::string absolute = path[0] == '/' ? path : std::filesystem::absolute(path).string();
    if (auto inside = pid > 0 ? Inside(pid, absolute) : std::nullopt) return *std::move(inside);
    if (IsFile(absolute)) return UserProgram{absolute, absolute, nullptr};
    return NotFound("no file " + EscapeForTerminal(path) + (pid > 0 ? " in the root of process " + std::to_string(pid) : "; a container's files are found with -p PID, and with --container while it runs"));
  }
  if (pid > 0) {
    const std::string own = ProgramOf(pid);
    for (const std::string& file : CodeOf(pid)) {
      if (!NamesFile(path, FileName(file), file == own)) continue;
      if (auto inside = Inside(pid, file)) return *std::move(inside);
    }
  }
  std::string script;
  const char* search = getenv("PATH");
  for (std::string_view folder : Split(search ? search : "/usr/bin:/bin", ':')) {
    std::string candidate = std::string(folder) + "/" + path;
    if (folder.empty() || !IsFile(candidate)) continue;
    if (!IsScript(candidate)) return UserProgram{candidate, candidate, nullptr};
    if (script.empty()) script = candidate;
  }
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (NamesFile(path, it->path().filename().string(), false) && IsFile(it->path())) return UserProgram{it->path(), it->path(), nullptr};
    }
  }
  if (!script.empty()) return NotFound(EscapeForTerminal(script) + " is a script: probe its interpreter by its path, or give -p PID of a process that runs it");
  return NotFound("no program or library '" + EscapeForTerminal(path) + "' in PATH and the library folders; give its path");
}

StatusOr<std::vector<Place>> FindPlaces(const Trigger& trigger, const UserProgram& program, pid_t pid) {
  auto places = FindPlaces(trigger, program.path);
  if (places.ok()) return places;
  if (places.status().code() == absl::StatusCode::kNotFound && pid > 0 && !trigger.symbol.empty() && !trigger.glob()) {
    for (const std::string& name : CodeOf(pid)) {
      const auto file = Inside(pid, name);
      if (!file || !FindPlaces(trigger, file->path).ok()) continue;
      return NotFound("no function '" + EscapeForTerminal(trigger.symbol) + "' in " + EscapeForTerminal(program.shown) + "; " + EscapeForTerminal(file->shown) + " of process " + std::to_string(pid) + " has it: write " +
                      EscapeForTerminal(FileName(file->shown)) + ":" + EscapeForTerminal(trigger.symbol));
    }
  }
  // Not by the descriptor's name.
  return Status(places.status().code(), absl::StrReplaceAll(Message(places.status()), {{program.path, EscapeForTerminal(program.shown)}}));
}

}  // namespace brink::snap
