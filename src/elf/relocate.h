// Sections of relocatable files (kernel modules, object files) with their references filled in.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "elf/file.h"

namespace brink::elf {

// Like File::ReadSection. In a relocatable file absolute references (x86-64, AArch64: 32 and 64 bits) hold the addresses
// that File gave to its sections, as .debug_* sections need them; other kinds of relocations are left alone.
StatusOr<std::string> ReadRelocated(const File& file, std::string_view name);

}  // namespace brink::elf
