#include "kernel/build_id.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/regular_file.h"

namespace brink {
namespace {

constexpr size_t kMostHeaders = 64, kMostNotes = 64 * 1024, kMostId = 20;

bool ReadAt(int fd, uint64_t offset, void* out, size_t size) {
  return pread(fd, out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

template <typename Ehdr, typename Phdr>
std::string BuildIdOf(int fd) {
  Ehdr header;
  if (!ReadAt(fd, 0, &header, sizeof(header)) || header.e_phentsize != sizeof(Phdr)) return {};
  for (size_t i = 0; i < std::min<size_t>(header.e_phnum, kMostHeaders); ++i) {
    Phdr segment;
    if (!ReadAt(fd, header.e_phoff + i * sizeof(Phdr), &segment, sizeof(segment))) return {};
    if (segment.p_type != PT_NOTE) continue;
    std::vector<std::byte> notes(std::min<uint64_t>(segment.p_filesz, kMostNotes));
    if (!ReadAt(fd, segment.p_offset, notes.data(), notes.size())) continue;
    std::string id = BuildIdInNotes(notes, segment.p_align == 8 ? 8 : 4);
    if (!id.empty()) return id;
  }
  return {};
}

std::string BuildIdInFile(const std::string& path) {
  auto text = ReadFile(path, kMostNotes);
  return text.ok() ? BuildIdInNotes(std::as_bytes(std::span(text->data(), text->size()))) : std::string();
}

}  // namespace

std::string BuildIdInNotes(std::span<const std::byte> notes, size_t align) {
  auto padded = [align](uint64_t size) { return (size + align - 1) & ~uint64_t{align - 1}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;  // three words in both classes
    std::memcpy(&note, notes.data(), sizeof(note));
    uint64_t description = padded(sizeof(note) + uint64_t{note.n_namesz});
    uint64_t end = padded(description + note.n_descsz);
    if (description + note.n_descsz > notes.size()) break;
    bool gnu = note.n_namesz == 4 && std::memcmp(notes.data() + sizeof(note), "GNU", 4) == 0;
    if (gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz > 0 && note.n_descsz <= kMostId) {
      return {reinterpret_cast<const char*>(notes.data()) + description, note.n_descsz};
    }
    notes = notes.subspan(std::min<uint64_t>(end, notes.size()));
  }
  return {};
}

std::string ReadBuildId(int fd) {
  unsigned char ident[EI_NIDENT];
  if (!ReadAt(fd, 0, ident, sizeof(ident)) || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return {};
  return ident[EI_CLASS] == ELFCLASS32 ? BuildIdOf<Elf32_Ehdr, Elf32_Phdr>(fd) : BuildIdOf<Elf64_Ehdr, Elf64_Phdr>(fd);
}

std::string ReadBuildId(const std::string& path) {
  auto fd = OpenRegular(path);
  return fd.ok() ? ReadBuildId(fd->get()) : std::string();
}

std::string KernelBuildId() { return BuildIdInFile("/sys/kernel/notes"); }

std::string ModuleBuildId(std::string_view module) {
  return BuildIdInFile("/sys/module/" + std::string(module) + "/notes/.note.gnu.build-id");
}

}  // namespace brink
