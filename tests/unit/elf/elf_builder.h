// A hand-made ELF64 for tests: sections laid out one after the other, one or more load segments.
#pragma once

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <string_view>
#include <vector>

namespace brink::elf::testing_elf {

inline void Put(std::string& out, const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
template <typename T>
void PutValue(std::string& out, T value) {
  Put(out, &value, sizeof value);
}

struct BuiltSection {
  std::string name;
  uint32_t type = SHT_PROGBITS;
  uint64_t flags = 0;
  uint64_t addr = 0;
  uint32_t link = 0;
  std::string bytes;
  uint64_t entry_size = 0;
};

class ElfBuilder {
 public:
  uint16_t machine = EM_X86_64;
  std::vector<Elf64_Phdr> segments;
  std::vector<BuiltSection> sections;  // section 0 and the name table are added

  void Load(uint64_t offset, uint64_t vaddr, uint64_t size, uint32_t flags) {
    Elf64_Phdr segment = {};
    segment.p_type = PT_LOAD;
    segment.p_flags = flags;
    segment.p_offset = offset;
    segment.p_vaddr = vaddr;
    segment.p_filesz = segment.p_memsz = size;
    segment.p_align = 4096;
    segments.push_back(segment);
  }
  // Index of the added section, for sh_link.
  uint32_t Add(BuiltSection section) {
    sections.push_back(std::move(section));
    return static_cast<uint32_t>(sections.size());
  }

  std::string Build() const {
    std::string names(1, '\0'), body;
    const uint64_t body_at = sizeof(Elf64_Ehdr) + segments.size() * sizeof(Elf64_Phdr);
    std::vector<Elf64_Shdr> headers(1);
    std::memset(headers.data(), 0, sizeof(Elf64_Shdr));
    auto add = [&](const BuiltSection& section, const std::string& bytes) {
      Elf64_Shdr header = {};
      header.sh_name = static_cast<uint32_t>(names.size());
      names += section.name + '\0';
      header.sh_type = section.type;
      header.sh_flags = section.flags;
      header.sh_addr = section.addr;
      header.sh_offset = body_at + body.size();
      header.sh_size = bytes.size();
      header.sh_link = section.link;
      header.sh_entsize = section.entry_size;
      headers.push_back(header);
      body += bytes;
      body.resize((body.size() + 7) & ~size_t{7});
    };
    for (const BuiltSection& section : sections) add(section, section.bytes);
    std::string all_names = names + ".shstrtab" + '\0';
    add({.name = ".shstrtab", .type = SHT_STRTAB}, all_names);

    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = machine;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_shoff = body_at + body.size();
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<uint16_t>(segments.size());
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(headers.size());
    header.e_shstrndx = static_cast<uint16_t>(headers.size() - 1);
    std::string out;
    Put(out, &header, sizeof header);
    for (const Elf64_Phdr& segment : segments) Put(out, &segment, sizeof segment);
    out += body;
    for (const Elf64_Shdr& section : headers) Put(out, &section, sizeof section);
    return out;
  }
};

// Adds .strtab and .symtab (or .dynstr and .dynsym) with one function per (name, value, size).
struct BuiltSymbol {
  std::string name;
  uint64_t value;
  uint64_t size;
};
inline void AddSymbols(ElfBuilder& elf, const std::vector<BuiltSymbol>& symbols, bool dynamic = false) {
  std::string names(1, '\0'), table(sizeof(Elf64_Sym), '\0');
  for (const BuiltSymbol& symbol : symbols) {
    Elf64_Sym entry = {};
    entry.st_name = static_cast<uint32_t>(names.size());
    entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    entry.st_shndx = 1;
    entry.st_value = symbol.value;
    entry.st_size = symbol.size;
    names += symbol.name + '\0';
    Put(table, &entry, sizeof entry);
  }
  uint32_t link = elf.Add({.name = dynamic ? ".dynstr" : ".strtab", .type = SHT_STRTAB, .bytes = names});
  elf.Add({.name = dynamic ? ".dynsym" : ".symtab", .type = dynamic ? uint32_t{SHT_DYNSYM} : uint32_t{SHT_SYMTAB}, .link = link,
           .bytes = table, .entry_size = sizeof(Elf64_Sym)});
}

inline std::string BuildIdNote(std::string_view id) {
  std::string note;
  PutValue<uint32_t>(note, 4);
  PutValue<uint32_t>(note, static_cast<uint32_t>(id.size()));
  PutValue<uint32_t>(note, NT_GNU_BUILD_ID);
  note += std::string_view("GNU\0", 4);
  note += id;
  note.resize((note.size() + 3) & ~size_t{3});
  return note;
}

}  // namespace brink::elf::testing_elf
