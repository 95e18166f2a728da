#include "source/vm_areas.h"

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

constexpr size_t kMaxSmaps = size_t{256} << 20;

}  // namespace

std::vector<VmArea> ParseSmaps(std::string_view text) {
  std::vector<VmArea> areas;
  bool flags_seen = true;
  auto close = [&] {
    if (!areas.empty() && !flags_seen) areas.back().io = true;
  };
  for (std::string_view line : Split(text, '\n')) {
    // Attribute lines start with a capital letter, heads with a hexadecimal digit in lower case.
    auto head = !line.empty() && !(line[0] >= 'A' && line[0] <= 'Z') ? ParseMapsLine(line) : std::nullopt;
    if (head) {
      close();
      areas.push_back({*std::move(head)});
      flags_seen = false;
    } else if (line.substr(0, 8) == "VmFlags:" && !areas.empty()) {
      flags_seen = true;
      for (std::string_view flag : Split(Trim(line.substr(8)), ' ')) {
        if (flag == "io") areas.back().io = true;
        if (flag == "pf") areas.back().pfn_map = true;
      }
    }
  }
  close();
  return areas;
}

StatusOr<std::vector<VmArea>> ReadVmAreas(pid_t pid, const std::string& proc_root) {
  auto text = ReadFile(proc_root + "/" + std::to_string(pid) + "/smaps", kMaxSmaps);
  if (!text.ok()) {
    int error = ErrnoOf(text.status());
    if (error == ENOENT || error == ESRCH) return NotFound("process " + std::to_string(pid) + " is gone");
    return text.status();
  }
  return ParseSmaps(*text);
}

}  // namespace brink
