#include "snap/syscalls.h"

#include <sys/syscall.h>

#include <cstring>

namespace brink::snap {
namespace {

struct Entry {
  const char* name;
  int number;
};
// Made from <asm/unistd.h> at configure time.
constexpr Entry kEntries[] = {
#include "snap/syscall_table.inc"
};

}  // namespace

std::optional<int> SyscallByName(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.number;
  }
  return std::nullopt;
}

std::string SyscallName(int number) {
  for (const Entry& entry : kEntries) {
    if (number == entry.number) return entry.name;
  }
  return "syscall_" + std::to_string(number);
}

std::vector<std::string> SyscallNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

std::string ErrnoName(int number) {
  const char* name = strerrorname_np(number);
  return name ? name : std::to_string(number);
}

}  // namespace brink::snap
