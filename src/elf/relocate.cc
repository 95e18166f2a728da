#include "elf/relocate.h"

#include <elf.h>

#include "elf/cursor.h"
#include "elf/symbols.h"

namespace brink::elf {
namespace {

// Bytes that a relocation of this type writes; 0: not an absolute reference.
size_t WidthOf(uint16_t machine, uint32_t type) {
  if (machine == EM_X86_64) return type == R_X86_64_64 ? 8 : type == R_X86_64_32 || type == R_X86_64_32S ? 4 : 0;
  if (machine == EM_AARCH64) return type == R_AARCH64_ABS64 ? 8 : type == R_AARCH64_ABS32 ? 4 : 0;
  return 0;
}

uint64_t AddressOf(const File& file, const Symbol& symbol) {
  const uint64_t base = symbol.section < file.sections().size() ? file.sections()[symbol.section].addr : 0;
  return base + symbol.value;
}

void Apply(const File& file, std::string_view relocations, const SymbolTable& table, std::string* bytes) {
  Cursor in(relocations, true);
  while (in.left() >= sizeof(Elf64_Rela)) {
    const uint64_t at = in.U64(), info = in.U64(), addend = in.U64();
    const size_t width = WidthOf(file.machine(), static_cast<uint32_t>(info));
    const uint64_t symbol = info >> 32;
    if (width == 0 || symbol >= table.symbols.size() || at > bytes->size() || bytes->size() - at < width) continue;
    const uint64_t value = AddressOf(file, table.symbols[symbol]) + addend;
    for (size_t i = 0; i < width; ++i) (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
  }
}

}  // namespace

StatusOr<std::string> ReadRelocated(const File& file, std::string_view name) {
  ASSIGN_OR_RETURN(std::string bytes, file.ReadSection(name));
  if (file.type() != ET_REL || !file.is64() || !file.little_endian()) return bytes;
  const Section* target = file.FindSection(name);
  for (const Section& section : file.sections()) {
    if (section.type != SHT_RELA || section.info >= file.sections().size() || &file.sections()[section.info] != target) continue;
    ASSIGN_OR_RETURN(SymbolTable table, ReadSymbols(file, SymbolSource::kSymtab));
    ASSIGN_OR_RETURN(std::string relocations, file.ReadSection(section));
    Apply(file, relocations, table, &bytes);
    break;
  }
  return bytes;
}

}  // namespace brink::elf
