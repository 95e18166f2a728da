// Where the kernel's code lies: its text, modules, BPF programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brink {

struct KernelText {
  uint64_t start = 0, end = 0;
  std::string symbol;  // at `start`: "_text" or "_stext"
};
// From the text of /proc/kallsyms; nothing when addresses are hidden (no CAP_SYSLOG).
std::optional<KernelText> FindKernelText(std::string_view kallsyms);
std::optional<KernelText> ReadKernelText();

struct KernelModule {
  std::string name;
  uint64_t start = 0, size = 0;
};
std::vector<KernelModule> ParseModules(std::string_view proc_modules);
std::vector<KernelModule> ReadModules();

}  // namespace brink
