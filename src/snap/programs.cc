// Which file a trigger's PATH means.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/fd.h"
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

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string ProgramOf(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t size = readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

// Files with code that the process has mapped, each once.
std::vector<UserProgram> CodeOf(pid_t pid) {
  const std::string root = "/proc/" + std::to_string(pid) + "/root";
  std::vector<UserProgram> files;
  std::set<std::string> seen;
  auto maps = ReadMaps(pid);
  for (const Mapping& mapping : maps.ok() ? *maps : std::vector<Mapping>{}) {
    if (mapping.executable && mapping.path.starts_with('/') && seen.insert(mapping.path).second && IsFile(root + mapping.path)) files.push_back({root + mapping.path, mapping.path});
  }
  return files;
}

}  // namespace

StatusOr<UserProgram> FindProgram(const std::string& path, pid_t pid) {
  if (path.find('/') != std::string::npos) {
    std::string absolute = path[0] == '/' ? path : std::filesystem::absolute(path).string();
    const std::string inside = "/proc/" + std::to_string(pid) + "/root" + absolute;
    if (pid > 0 && IsFile(inside)) return UserProgram{inside, absolute};
    if (IsFile(absolute)) return UserProgram{absolute, absolute};
    return NotFound("no file " + EscapeForTerminal(path) + (pid > 0 ? " in the root of process " + std::to_string(pid) : "; a container's files are found with -p PID, and with --container while it runs"));
  }
  if (pid > 0) {
    const std::string own = ProgramOf(pid);
    for (UserProgram& file : CodeOf(pid)) {
      if (NamesFile(path, FileName(file.shown), file.shown == own)) return std::move(file);
    }
  }
  std::string script;
  const char* search = getenv("PATH");
  for (std::string_view folder : Split(search ? search : "/usr/bin:/bin", ':')) {
    std::string candidate = std::string(folder) + "/" + path;
    if (folder.empty() || !IsFile(candidate)) continue;
    if (!IsScript(candidate)) return UserProgram{candidate, candidate};
    if (script.empty()) script = candidate;
  }
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (NamesFile(path, it->path().filename().string(), false) && IsFile(it->path())) return UserProgram{it->path(), it->path()};
    }
  }
  if (!script.empty()) return NotFound(EscapeForTerminal(script) + " is a script: probe its interpreter by its path, or give -p PID of a process that runs it");
  return NotFound("no program or library '" + EscapeForTerminal(path) + "' in PATH and the library folders; give its path");
}

StatusOr<std::vector<Place>> FindPlaces(const Trigger& trigger, const UserProgram& program, pid_t pid) {
  auto places = FindPlaces(trigger, program.path);
  if (places.status().code() != absl::StatusCode::kNotFound || pid <= 0 || trigger.symbol.empty() || trigger.glob()) return places;
  for (const UserProgram& file : CodeOf(pid)) {
    if (!FindPlaces(trigger, file.path).ok()) continue;
    return NotFound("no function '" + EscapeForTerminal(trigger.symbol) + "' in " + EscapeForTerminal(program.shown) + "; " + EscapeForTerminal(file.shown) + " of process " + std::to_string(pid) + " has it: write " + EscapeForTerminal(FileName(file.shown)) + ":" + EscapeForTerminal(trigger.symbol));
  }
  return places;
}

}  // namespace brink::snap
