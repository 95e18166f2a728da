// The line table of one unit (DWARF 2 to 5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink::dwarf {

struct LineRow {
  uint64_t address = 0;
  uint32_t file = 0;  // index in LineTable::files
  uint32_t line = 0;  // 0: no source line
  uint32_t column = 0;
  bool is_stmt = true;
  bool end_sequence = false;  // first address behind the sequence
};

struct LineTable {
  struct FileEntry {
    std::string_view name;
    uint64_t folder = 0;  // index in folders
  };
  std::vector<LineRow> rows;  // sequences in address order, rows of a sequence ascending
  std::vector<FileEntry> files;
  std::vector<std::string_view> folders;  // folder 0 is the compilation's
  // Full path as far as the table knows folders, at most three times 4 KiB; "" for an unknown index.
  std::string FileName(uint64_t file) const;
  // The row that covers `address`, or nullptr.
  const LineRow* Find(uint64_t address) const;
};

struct LineSections {
  std::string_view line;      // .debug_line
  std::string_view line_str;  // .debug_line_str
  std::string_view str;       // .debug_str
  bool little_endian = true;
  bool zero_is_code = false;  // relocatable file: its first section starts at address 0
};

// Parses the program at `offset`. `comp_dir` completes relative folders; it and the sections must outlive the table,
// which refers to their text. Rows of sequences that start at address 0 (unless that is
// code) or at a linker's tombstone are dropped (discarded functions). Memory: at most one row per byte of program.
StatusOr<LineTable> ReadLineTable(const LineSections& sections, uint64_t offset, std::string_view comp_dir, unsigned address_size);

}  // namespace brink::dwarf
