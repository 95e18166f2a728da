// Names and numbers of system calls of this architecture.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brink::snap {

std::optional<int> SyscallByName(std::string_view name);
std::string SyscallName(int number);  // "syscall_999" for unknown ones
std::vector<std::string> SyscallNames();

// "EACCES" of 13; the number as text where it has no name.
std::string ErrnoName(int number);

}  // namespace brink::snap
