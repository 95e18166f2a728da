#include "kernel/proc_maps.h"

#include <charconv>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

// Reads a number off the front of `text` and the character behind it, which must be `end` (0: end of text).
template <typename T>
bool Take(std::string_view& text, T* value, int base, char end) {
  auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(at - text.data()));
  if (text.empty() || text[0] != end) return end == 0 && text.empty();
  text.remove_prefix(1);
  return true;
}

// The kernel writes newlines (and only those) in paths as \012.
std::string Unescape(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      out.push_back('\n');
      i += 3;
    } else {
      out.push_back(path[i]);
    }
  }
  return out;
}

}  // namespace

std::optional<Mapping> ParseMapsLine(std::string_view line) {
  Mapping map;
  if (!Take(line, &map.start, 16, '-') || !Take(line, &map.end, 16, ' ')) return std::nullopt;
  if (line.size() < 5 || line[4] != ' ') return std::nullopt;
  map.readable = line[0] == 'r';
  map.writable = line[1] == 'w';
  map.executable = line[2] == 'x';
  map.shared = line[3] == 's';
  line.remove_prefix(5);
  if (!Take(line, &map.offset, 16, ' ') || !Take(line, &map.major, 16, ':') || !Take(line, &map.minor, 16, ' ')) return std::nullopt;
  std::string_view inode = line.substr(0, line.find(' '));
  line.remove_prefix(inode.size());
  if (!Take(inode, &map.inode, 10, 0) || map.end <= map.start) return std::nullopt;
  size_t path = line.find_first_not_of(' ');
  if (path != std::string_view::npos) map.path = Unescape(line.substr(path));
  return map;
}

std::vector<Mapping> ParseMaps(std::string_view text) {
  std::vector<Mapping> maps;
  for (std::string_view line : Split(text, '\n')) {
    if (auto map = ParseMapsLine(line)) maps.push_back(std::move(*map));
  }
  return maps;
}

StatusOr<std::vector<Mapping>> ReadMaps(pid_t pid) {
  ASSIGN_OR_RETURN(std::string text, ReadFile("/proc/" + std::to_string(pid) + "/maps"));
  return ParseMaps(text);
}

}  // namespace brink
