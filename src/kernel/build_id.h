// Build-ids of files, the kernel and its modules, read within bounds: the files are other people's.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace brink {

// The id inside a block of ELF notes (a note segment, or /sys/kernel/notes), raw bytes; "" when there is none.
// `align` is the segment's alignment, 4 or 8.
std::string BuildIdInNotes(std::span<const std::byte> notes, size_t align = 4);
// Of an open ELF file (32 or 64 bit, native byte order); "" when it has none. Reads the header, at most 64 program
// headers and at most 64 KiB of notes, whatever the file says.
std::string ReadBuildId(int fd);
std::string ReadBuildId(const std::string& path);
std::string KernelBuildId();
std::string ModuleBuildId(std::string_view module);

}  // namespace brink
