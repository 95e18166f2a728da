// Function extents and unwind entries from .eh_frame, present even in stripped binaries.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "elf/file.h"

namespace brink::elf {

struct FdeExtent {
  uint64_t start = 0;  // link-time address
  uint64_t size = 0;
  bool signal_frame = false;  // CIE augmentation "S"
};

struct FdeTable {
  std::vector<FdeExtent> extents;  // sorted by start; as many as the section holds, nested or overlapping ones included
  uint64_t damaged = 0;            // entries skipped because they made no sense
};

// Entries whose encoding is indirect or relative to unknown bases are counted as damaged. NOT_FOUND without the section.
StatusOr<FdeTable> ReadFdeExtents(const File& file);

}  // namespace brink::elf
