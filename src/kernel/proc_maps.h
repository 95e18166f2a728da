// /proc/PID/maps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink {

struct Mapping {
  uint64_t start = 0, end = 0;
  uint64_t offset = 0;  // in the file
  bool readable = false, writable = false, executable = false, shared = false;
  uint32_t major = 0, minor = 0;
  uint64_t inode = 0;
  std::string path;  // as the kernel prints it, octal escapes undone; "" for anonymous memory; may end in " (deleted)"
};

// One line without its newline; nothing for text of another form.
std::optional<Mapping> ParseMapsLine(std::string_view line);
std::vector<Mapping> ParseMaps(std::string_view text);
// NOT_FOUND when the process is gone. Kernel threads have none.
StatusOr<std::vector<Mapping>> ReadMaps(pid_t pid);

}  // namespace brink
