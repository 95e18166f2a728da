#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>

#include "base/regular_file.h"
#include "base/strings.h"
#include "elf/cursor.h"
#include "elf/file.h"
#include "kernel/proc_maps.h"
#include "monitor/source.h"

namespace brink::cfi {
namespace {

constexpr size_t kMostFiles = 64;
#if defined(__aarch64__)
#define BRINK_LIB_TRIPLET "aarch64-linux-gnu"
#else
#define BRINK_LIB_TRIPLET "x86_64-linux-gnu"
#endif
const char* const kFolders[] = {"/lib/" BRINK_LIB_TRIPLET, "/usr/lib/" BRINK_LIB_TRIPLET, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"};

std::string FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  for (std::string_view folder : Split(path ? path : "/usr/bin:/bin", ':')) {
    std::string at = std::string(folder) + "/" + program;
    if (access(at.c_str(), X_OK) == 0) return at;
  }
  return "";
}

// DT_NEEDED and the interpreter of a file.
std::vector<std::string> Needed(const elf::File& file) {
  std::vector<std::string> names;
  for (const elf::Segment& segment : file.segments()) {
    if (segment.type != 3) continue;  // PT_INTERP
    auto text = file.ReadRange(segment.offset, std::min<uint64_t>(segment.file_size, 4096));
    if (text.ok()) names.emplace_back(text->c_str());
  }
  auto dynamic = file.ReadSection(".dynamic"), strings = file.ReadSection(".dynstr");
  if (!dynamic.ok() || !strings.ok()) return names;
  elf::Cursor in(*dynamic, file.little_endian());
  while (in.left() >= 16) {
    const uint64_t tag = in.U64(), value = in.U64();
    if (tag == 1 && value < strings->size()) names.emplace_back(strings->c_str() + value);
  }
  return names;
}

// A script's interpreter; "" for what is no script.
std::string Interpreter(const std::string& path) {
  auto fd = OpenRegular(path);
  char head[256];
  const ssize_t n = fd.ok() ? pread(fd->get(), head, sizeof head, 0) : 0;
  const std::string_view text(head, n > 0 ? static_cast<size_t>(n) : 0);
  if (!text.starts_with("#!")) return "";
  std::string_view line = Trim(text.substr(2, text.find('\n') - 2));
  const size_t blank = line.find(' ');
  if (line.substr(0, blank).ends_with("/env") && blank != line.npos) return FindProgram(std::string(Trim(line.substr(blank))));
  return std::string(line.substr(0, blank));
}

}  // namespace

std::vector<std::string> FilesOfCommand(const std::string& program) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  std::deque<std::string> waiting = {FindProgram(program)};
  if (std::string script = Interpreter(waiting.front()); !script.empty()) waiting = {script};
  while (!waiting.empty() && files.size() < kMostFiles) {
    std::string name = waiting.front();
    waiting.pop_front();
    if (name.empty() || !seen.insert(name).second) continue;
    if (name.find('/') == std::string::npos) {
      for (const char* folder : kFolders) {
        std::string at = std::string(folder) + "/" + name;
        if (access(at.c_str(), R_OK) == 0) {
          name = at;
          break;
        }
      }
    }
    auto file = elf::File::Open(name);
    if (!file.ok()) continue;
    files.push_back(name);
    for (std::string& next : Needed(*file)) waiting.push_back(std::move(next));
  }
  return files;
}

std::vector<std::string> FilesOfProcess(pid_t pid) {
  std::vector<std::string> files;
  auto maps = ReadMaps(pid);
  if (!maps.ok()) return files;
  for (const Mapping& m : *maps) {
    if (!m.executable || !m.path.starts_with('/') || files.size() >= kMostFiles) continue;
    std::string path = "/proc/" + std::to_string(pid) + "/root" + m.path;
    if (std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
  }
  return files;
}

}  // namespace brink::cfi
