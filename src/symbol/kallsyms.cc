#include "symbol/kallsyms.h"

#include <algorithm>
#include <charconv>

namespace brink::symbol {

uint64_t Kallsyms::AddressOf(std::string_view name) const {
  for (const KernelSymbol& symbol : symbols) {
    if (symbol.name == name && symbol.module.empty()) return symbol.address;
  }
  return 0;
}

StatusOr<Kallsyms> ParseKallsyms(std::string_view text) {
  Kallsyms kallsyms;
  bool any_line = false;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    KernelSymbol symbol;
    auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), symbol.address, 16);
    size_t at = static_cast<size_t>(rest - line.data());
    if (error != std::errc() || line.size() < at + 4 || line[at] != ' ' || line[at + 2] != ' ') continue;
    any_line = true;
    char type = line[at + 1];
    if (symbol.address == 0 || (type != 't' && type != 'T' && type != 'w' && type != 'W')) continue;
    std::string_view name = line.substr(at + 3);
    if (size_t tab = name.find('\t'); tab != std::string_view::npos) {
      std::string_view module = name.substr(tab + 1);
      if (module.size() > 2 && module.front() == '[' && module.back() == ']') symbol.module = std::string(module.substr(1, module.size() - 2));
      name = name.substr(0, tab);
    }
    symbol.name = std::string(name);
    kallsyms.symbols.push_back(std::move(symbol));
  }
  if (any_line && kallsyms.symbols.empty()) {
    return PermissionDenied("/proc/kallsyms shows no addresses; run as root (CAP_SYSLOG) or set kernel.kptr_restrict=0");
  }
  std::stable_sort(kallsyms.symbols.begin(), kallsyms.symbols.end(), [](const KernelSymbol& a, const KernelSymbol& b) { return a.address < b.address; });
  return kallsyms;
}

}  // namespace brink::symbol
