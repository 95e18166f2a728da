#include "kernel/proc_kernel.h"

#include <charconv>

#include "base/fd.h"
#include "base/strings.h"

namespace brink {
namespace {

bool Hex(std::string_view text, uint64_t* value) {
  if (text.substr(0, 2) == "0x") text.remove_prefix(2);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<KernelText> FindKernelText(std::string_view kallsyms) {
  KernelText text;
  uint64_t stext = 0;
  while (!kallsyms.empty() && text.end == 0) {
    std::string_view line = kallsyms.substr(0, kallsyms.find('\n'));
    kallsyms.remove_prefix(std::min(line.size() + 1, kallsyms.size()));
    size_t type = line.find(' ');
    if (type == std::string_view::npos || line.size() < type + 4) continue;
    std::string_view name = line.substr(type + 3);
    uint64_t* wanted = name == "_text" ? &text.start : name == "_stext" ? &stext : name == "_etext" ? &text.end : nullptr;
    if (wanted && !Hex(line.substr(0, type), wanted)) return std::nullopt;
  }
  text.symbol = text.start ? "_text" : "_stext";
  if (!text.start) text.start = stext;
  if (text.start == 0 || text.end <= text.start) return std::nullopt;
  return text;
}

std::optional<KernelText> ReadKernelText() {
  auto text = ReadFile("/proc/kallsyms");
  return text.ok() ? FindKernelText(*text) : std::nullopt;
}

std::vector<KernelModule> ParseModules(std::string_view proc_modules) {
  std::vector<KernelModule> modules;
  for (std::string_view line : Split(proc_modules, '\n')) {
    // name size refcount users state address
    std::vector<std::string_view> fields = Split(line, ' ');
    KernelModule module;
    if (fields.size() < 6 || !Hex(fields[5], &module.start) || module.start == 0) continue;
    auto [end, error] = std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), module.size);
    if (error != std::errc() || module.size == 0) continue;
    module.name = std::string(fields[0]);
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<KernelModule> ReadModules() {
  auto text = ReadFile("/proc/modules");
  return text.ok() ? ParseModules(*text) : std::vector<KernelModule>();
}

}  // namespace brink
