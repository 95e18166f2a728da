#include "elf/symbols.h"

#include <elf.h>

#include <absl/strings/str_format.h>

#include "elf/cursor.h"

namespace brink::elf {
namespace {

struct Relocation {
  uint64_t slot = 0;
  uint32_t symbol = 0;  // 0: of type IRELATIVE
  uint64_t resolver = 0;
};

void ReadRelocations(const File& file, std::vector<Relocation>* out) {
  for (const Section& section : file.sections()) {
    if (section.type != SHT_RELA || !(section.flags & SHF_ALLOC)) continue;
    auto bytes = file.ReadSection(section);
    if (!bytes.ok()) continue;
    Cursor in(*bytes, file.little_endian());
    while (in.left() >= sizeof(Elf64_Rela)) {
      const uint64_t slot = in.U64(), info = in.U64(), addend = in.U64();
      const uint32_t symbol = static_cast<uint32_t>(info >> 32), type = static_cast<uint32_t>(info);
      if (symbol || type == (file.machine() == EM_X86_64 ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE)) out->push_back({slot, symbol, addend});
    }
  }
  std::sort(out->begin(), out->end(), [](const Relocation& a, const Relocation& b) { return a.slot < b.slot; });
}

// The slot that the x86-64 stub at `at` jumps through: [endbr64] [bnd] jmp *disp(%rip).
std::optional<uint64_t> X86Slot(std::string_view stub, uint64_t at) {
  size_t i = 0;
  if (stub.size() >= 4 && stub.substr(0, 4) == "\xf3\x0f\x1e\xfa") i = 4;
  if (stub.size() > i && stub[i] == '\xf2') ++i;
  if (stub.size() < i + 6 || stub[i] != '\xff' || stub[i + 1] != '\x25') return std::nullopt;
  Cursor in(stub, true, i + 2);
  return at + i + 6 + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(in.U32())));
}

// adrp x16, page; ldr x17, [x16, #offset] (perhaps behind a bti).
std::optional<uint64_t> Arm64Slot(std::string_view stub, uint64_t at) {
  for (size_t i = 0; i + 8 <= stub.size() && i <= 4; i += 4) {
    Cursor in(stub, true, i);
    uint32_t adrp = in.U32(), load = in.U32();
    if ((adrp & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211) continue;
    uint64_t pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7ffff) << 2;
    int64_t signed_pages = static_cast<int64_t>(pages << 43) >> 43;
    return ((at + i) & ~uint64_t{4095}) + static_cast<uint64_t>(signed_pages) * 4096 + (load >> 10 & 0xfff) * 8;
  }
  return std::nullopt;
}

}  // namespace

std::string_view SymbolTable::NameOf(const Symbol& symbol) const {
  std::string_view name = TextAt(names, symbol.name).substr(0, 65536);
  size_t version = name.find('@');
  return version == std::string_view::npos || version == 0 ? name : name.substr(0, version);
}

StatusOr<SymbolTable> ReadSymbols(const File& file, SymbolSource source) {
  const uint32_t wanted = source == SymbolSource::kSymtab ? SHT_SYMTAB : SHT_DYNSYM;
  for (const Section& section : file.sections()) {
    if (section.type != wanted) continue;
    if (section.link >= file.sections().size()) return DataLoss(file.name() + ": symbol table without names");
    ASSIGN_OR_RETURN(std::string bytes, file.ReadSection(section));
    SymbolTable table;
    ASSIGN_OR_RETURN(table.names, file.ReadSection(file.sections()[section.link]));
    Cursor in(bytes, file.little_endian());
    const size_t size = file.is64() ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    table.symbols.reserve(bytes.size() / size);
    while (in.left() >= size) {
      Symbol symbol;
      symbol.name = in.U32();
      if (!file.is64()) {
        symbol.value = in.U32();
        symbol.size = in.U32();
      }
      uint8_t info = in.U8();
      in.U8();
      symbol.type = info & 15;
      symbol.binding = info >> 4;
      symbol.section = in.U16();
      if (file.is64()) {
        symbol.value = in.U64();
        symbol.size = in.U64();
      }
      table.symbols.push_back(symbol);
    }
    return table;
  }
  return NotFound(file.name() + (source == SymbolSource::kSymtab ? ": no .symtab" : ": no .dynsym"));
}

std::vector<PltEntry> ReadPlt(const File& file) {
  std::vector<PltEntry> plt;
  const bool x86 = file.machine() == EM_X86_64, arm64 = file.machine() == EM_AARCH64;
  if ((!x86 && !arm64) || !file.is64()) return plt;
  auto symbols = ReadSymbols(file, SymbolSource::kDynsym);
  if (!symbols.ok()) return plt;
  std::vector<Relocation> relocations;
  ReadRelocations(file, &relocations);
  for (const Section& section : file.sections()) {
    if (section.name != ".plt" && section.name != ".plt.sec" && section.name != ".plt.got") continue;
    auto bytes = file.ReadSection(section);
    if (!bytes.ok()) continue;
    const size_t step = section.name == ".plt.got" && x86 && section.entry_size == 8 ? 8 : 16;
    for (size_t at = 0; at + 6 <= bytes->size(); at += step) {
      std::string_view stub = std::string_view(*bytes).substr(at, step);
      auto slot = x86 ? X86Slot(stub, section.addr + at) : Arm64Slot(stub, section.addr + at);
      if (!slot) continue;
      auto found = std::lower_bound(relocations.begin(), relocations.end(), *slot,
                                    [](const Relocation& r, uint64_t value) { return r.slot < value; });
      if (found == relocations.end() || found->slot != *slot || found->symbol >= symbols->symbols.size()) continue;
      // A slot that a function of the file fills: as binutils and perf name it.
      if (found->symbol == 0) {
        plt.push_back({section.addr + at, step, absl::StrFormat("*ABS*+%#x@plt", found->resolver)});
        continue;
      }
      std::string_view name = symbols->NameOf(symbols->symbols[found->symbol]);
      if (!name.empty()) plt.push_back({section.addr + at, step, std::string(name.substr(0, 4096)) + "@plt"});
    }
  }
  return plt;
}

}  // namespace brink::elf
