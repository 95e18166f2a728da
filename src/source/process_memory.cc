#include "source/process_memory.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include "kernel/proc_maps.h"

namespace brink {
namespace {

constexpr size_t kMaxMaps = size_t{64} << 20;

// /proc/PID/maps does not tell devices; by name: files outside of /dev, /sys and /proc, and anonymous memory.
bool Plain(const Mapping& area) {
  const std::string& path = area.path;
  if (path.empty() || path == "[heap]" || path == "[vdso]" || path.starts_with("[stack") || path.starts_with("[anon")) return true;
  return path[0] == '/' && !path.starts_with("/dev/") && !path.starts_with("/sys/") && !path.starts_with("/proc/");
}

}  // namespace

ProcessMemory::ProcessMemory(const std::string& proc_root, uint32_t tgid) {
  std::string folder = proc_root + "/" + std::to_string(tgid);
  auto maps = ReadFile(folder + "/maps", kMaxMaps);
  auto mem = OpenFile(folder + "/mem", O_RDONLY);
  if (!maps.ok() || !mem.ok()) return;
  mem_ = *std::move(mem);
  for (const Mapping& area : ParseMaps(*maps)) {
    if (!area.readable || !Plain(area)) continue;
    readable_.push_back({area.start, area.end});
    if (area.executable) executable_.push_back({area.start, area.end});
  }
}

bool ProcessMemory::Within(const std::vector<Area>& areas, uint64_t address, size_t size) {
  auto it = std::upper_bound(areas.begin(), areas.end(), address, [](uint64_t a, const Area& area) { return a < area.start; });
  return it != areas.begin() && (--it)->end > address && it->end - address >= size;
}

bool ProcessMemory::Executable(uint64_t address) const { return Within(executable_, address, 1); }

bool ProcessMemory::Read(uint64_t address, void* to, size_t size) const {
  if (!Within(readable_, address, size)) return false;
  return ::pread(mem_.get(), to, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

}  // namespace brink
