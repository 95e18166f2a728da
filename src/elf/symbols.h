// Symbols of an ELF file, as they stand in it: nothing is judged, merged or demangled here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "elf/file.h"

namespace brink::elf {

struct Symbol {
  uint64_t value = 0;  // link-time address (ET_REL: offset in the section)
  uint64_t size = 0;   // 0 = unknown
  uint32_t name = 0;   // offset in SymbolTable::names
  uint16_t section = 0;
  uint8_t type = 0;     // STT_*
  uint8_t binding = 0;  // STB_*

  bool function() const { return type == 2 || type == 10; }  // STT_FUNC, STT_GNU_IFUNC
  bool defined() const { return section != 0; }
};

struct SymbolTable {
  std::vector<Symbol> symbols;
  std::string names;

  std::string_view NameOf(const Symbol& symbol) const;  // without a version suffix "@..."; at most 64 KiB
};

enum class SymbolSource { kSymtab, kDynsym };

// All entries in file order (index 0 included, so that relocations can refer to them). NOT_FOUND where the file has no
// such table.
StatusOr<SymbolTable> ReadSymbols(const File& file, SymbolSource source);

// Symbols of the LZMA-compressed .gnu_debugdata (MiniDebugInfo) are not read: Debian does not use it.

struct PltEntry {
  uint64_t vaddr = 0;
  uint64_t size = 0;
  std::string name;  // "memcpy@plt"; "*ABS*+0x9d700@plt": what the resolver at that address chooses (IFUNC)
};

// Stubs of the procedure linkage tables (.plt, .plt.sec, .plt.got; x86-64 and AArch64), found by decoding each stub's
// indirect jump and looking its slot up in the relocations: right for lazy, IBT and BIND_NOW layouts alike.
std::vector<PltEntry> ReadPlt(const File& file);

}  // namespace brink::elf
