#include "source/vm_areas.h"

#include <cerrno>
#include <charconv>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

constexpr size_t kMaxSmaps = size_t{256} << 20;

bool TakeHex(std::string_view* text, uint64_t* value) {
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value, 16);
  if (error != std::errc() || end == text->data()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool TakeChar(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

// "7f00-7f10 r-xp 00001000 fe:00 1234   /usr/lib/x.so"
bool ParseHead(std::string_view line, VmArea* area) {
  if (!TakeHex(&line, &area->start) || !TakeChar(&line, '-') || !TakeHex(&line, &area->end) || !TakeChar(&line, ' ')) return false;
  if (line.size() < 5 || area->start >= area->end) return false;
  area->readable = line[0] == 'r';
  area->writable = line[1] == 'w';
  area->executable = line[2] == 'x';
  line.remove_prefix(5);
  uint64_t major = 0, minor = 0;
  if (!TakeHex(&line, &area->offset) || !TakeChar(&line, ' ') || !TakeHex(&line, &major) || !TakeChar(&line, ':') ||
      !TakeHex(&line, &minor) || !TakeChar(&line, ' ')) {
    return false;
  }
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), area->inode, 10);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  size_t name = line.find_first_not_of(' ');
  area->name = name == std::string_view::npos ? "" : std::string(line.substr(name));
  return true;
}

}  // namespace

std::vector<VmArea> ParseSmaps(std::string_view text) {
  std::vector<VmArea> areas;
  bool flags_seen = true;
  auto close = [&] {
    if (!areas.empty() && !flags_seen) areas.back().io = true;
  };
  for (std::string_view line : Split(text, '\n')) {
    VmArea area;
    // Attribute lines start with a capital letter, heads with a hexadecimal digit in lower case.
    if (!line.empty() && !(line[0] >= 'A' && line[0] <= 'Z') && ParseHead(line, &area)) {
      close();
      areas.push_back(std::move(area));
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
