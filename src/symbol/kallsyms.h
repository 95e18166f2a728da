// The running kernel's symbols (/proc/kallsyms), relative to a reference symbol so that KASLR drops out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::symbol {

struct KernelSymbol {
  uint64_t address = 0;  // as in the file
  std::string name;
  std::string module;    // "" for the image itself
};

struct Kallsyms {
  std::vector<KernelSymbol> symbols;  // text symbols (types t, T, w, W), sorted by address
  // Address of a symbol of the image, 0 where it is absent.
  uint64_t AddressOf(std::string_view name) const;
};

// PERMISSION_DENIED when all addresses are zero (kptr_restrict or no CAP_SYSLOG); damaged lines are skipped.
StatusOr<Kallsyms> ParseKallsyms(std::string_view text);

}  // namespace brink::symbol
