#include "cli/version.h"

#include <bpf/libbpf.h>
#include <elf.h>
#include <link.h>
#include <sys/utsname.h>
#include <zstd.h>

#include <cstring>

#ifndef BRINK_VERSION
#define BRINK_VERSION "unknown"
#endif
#ifndef BRINK_REVISION
#define BRINK_REVISION "unknown"
#endif
#ifndef BRINK_COMMANDS_TEXT
#define BRINK_COMMANDS_TEXT ""
#endif

namespace brink::cli {
namespace {

std::string Hex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) (text += kDigits[bytes[i] >> 4]) += kDigits[bytes[i] & 15];
  return text;
}

// The note of the program itself, which the loader reports first.
int FindBuildId(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);
    const auto* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const unsigned char* name = at + sizeof(note);
      const unsigned char* value = name + ((note.n_namesz + 3) & ~3u);
      if (value + note.n_descsz > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        *static_cast<std::string*>(out) = Hex(value, note.n_descsz);
        return 1;
      }
      at = value + ((note.n_descsz + 3) & ~3u);
    }
  }
  return 1;
}

}  // namespace

std::string VersionLine() { return "brink " BRINK_VERSION " (git " BRINK_REVISION ")"; }

std::string BuildId() {
  std::string id;
  dl_iterate_phdr(FindBuildId, &id);
  return id;
}

std::string VersionText() {
  const std::string id = BuildId();
#ifdef __x86_64__
  const std::string machine = "x86_64", sources = "lbr walk hop step";
#else
  utsname names = {};
  uname(&names);
  const std::string machine = names.machine, sources = "lbr";
#endif
  return VersionLine() + "\nbuild-id: " + (id.empty() ? "none" : id) + "\nfor: " + machine + ", sources: " + sources +
         "\nwith: libbpf " + std::to_string(libbpf_major_version()) + "." + std::to_string(libbpf_minor_version()) + ", zstd " +
         ZSTD_versionString() + "\ncommands: " BRINK_COMMANDS_TEXT "\n";
}

}  // namespace brink::cli
