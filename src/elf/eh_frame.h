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
  uint64_t lsda = 0;          // link-time address of its exception table, 0 = none
};

struct FdeTable {
  std::vector<FdeExtent> extents;  // sorted by start; as many as the section holds, nested or overlapping ones included
  uint64_t damaged = 0;            // entries skipped because they made no sense
};

// Entries whose encoding is indirect or relative to unknown bases are counted as damaged. NOT_FOUND without the section.
StatusOr<FdeTable> ReadFdeExtents(const File& file);

// Where exceptions land in the functions of `table`, sorted: the landing pads of .gcc_except_table. Tables that make no
// sense give none. At most `limit`.
std::vector<uint64_t> ReadLandingPads(const File& file, const FdeTable& table, size_t limit = 4'000'000);

}  // namespace brink::elf
