// Facts from an ELF file that nobody vouches for.
//
// The file is read with pread as far as needed (no mapping: a file cut short by its owner must not kill us). Every
// offset, count and size is checked against the file's size before it is used; a broken part makes the call that
// needs it fail and leaves the rest usable. Both byte orders, both classes. Not thread-safe per object (the caches
// are filled on first use).
//
// Bounds: memory is proportional to the file's size. A compressed section may claim at most 128 times its stored
// size plus 64 KiB.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace brink::elf {

struct Segment {
  uint32_t type = 0;   // PT_*
  uint32_t flags = 0;  // PF_*
  uint64_t offset = 0;
  uint64_t vaddr = 0;
  uint64_t file_size = 0;
  uint64_t mem_size = 0;
  uint64_t align = 0;

  bool load() const { return type == 1; }
  bool executable() const { return flags & 1; }
};

struct Section {
  std::string name;
  uint32_t type = 0;  // SHT_*
  uint64_t flags = 0;
  uint64_t addr = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t link = 0;
  uint32_t info = 0;
  uint64_t entry_size = 0;
  uint64_t align = 0;

  bool has_bytes() const { return type != 0 && type != 8; }  // neither SHT_NULL nor SHT_NOBITS
};

struct DebugLink {
  std::string name;  // file name without folders
  uint32_t crc = 0;  // of the whole debug file
};

class File {
 public:
  static StatusOr<File> Open(const std::string& path);
  static StatusOr<File> FromFd(UniqueFd fd, std::string name);
  static StatusOr<File> FromBytes(std::string bytes, std::string name = "memory");

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  bool is64() const { return is64_; }
  bool little_endian() const { return little_; }
  uint16_t type() const { return type_; }        // ET_*
  uint16_t machine() const { return machine_; }  // EM_*
  uint64_t entry() const { return entry_; }
  bool position_independent() const { return type_ == 3; }

  std::span<const Segment> segments() const { return segments_; }
  std::span<const Section> sections() const { return sections_; }
  const Section* FindSection(std::string_view name) const;  // the first of that name, or nullptr

  // Raw bytes of the file; a range beyond its end is OUT_OF_RANGE's kin DATA_LOSS.
  StatusOr<std::string> ReadRange(uint64_t offset, uint64_t size) const;
  // A section's content, decompressed (zlib or zstd). NOT_FOUND for sections without bytes.
  StatusOr<std::string> ReadSection(const Section& section) const;
  StatusOr<std::string> ReadSection(std::string_view name) const;
  // Bytes at a link-time address, from the segments (or, for objects without, the sections). Cut at the segment's end.
  StatusOr<std::string> ReadVaddr(uint64_t vaddr, uint64_t size) const;

  // NT_GNU_BUILD_ID as raw bytes (1 to 64 of them), from notes in segments or sections.
  std::optional<std::string> BuildId() const;
  std::optional<DebugLink> debug_link() const;

  // Between file offsets and link-time addresses, by program headers. Where two segments share a file page an
  // executable one that holds the offset itself wins.
  std::optional<uint64_t> OffsetToVaddr(uint64_t offset) const;
  std::optional<uint64_t> VaddrToOffset(uint64_t vaddr) const;
  // What was added to link-time addresses when [start, start + length) was mapped from `page_offset`; nothing if no
  // segment covers it. `executable` says which segments are meant where several share the page.
  std::optional<uint64_t> LoadBias(uint64_t start, uint64_t page_offset, bool executable = true) const;
  // Lowest vaddr of the loadable segments (the base of formats that want "offset from the load base").
  std::optional<uint64_t> FirstLoadVaddr() const;

 private:
  File() = default;
  Status ReadHeaders();
  Status ReadSectionHeaders(uint64_t offset, uint32_t count, uint16_t entry_size, uint32_t names_index);
  // Relocatable files (kernel modules) have no addresses: code sections get those that the kernel's loader gives them,
  // relative to the module's start; what it throws away after initialising comes far behind.
  void LayOutSections();
  void ReadSegments(uint64_t offset, uint32_t count, uint16_t entry_size);
  std::optional<std::string> BuildIdInNotes(std::string_view notes, uint64_t align) const;

  std::string name_;
  UniqueFd fd_;
  std::string bytes_;  // FromBytes only
  bool in_memory_ = false;
  uint64_t size_ = 0;
  bool is64_ = true;
  bool little_ = true;
  uint16_t type_ = 0;
  uint16_t machine_ = 0;
  uint64_t entry_ = 0;
  std::vector<Segment> segments_;
  std::vector<Section> sections_;
};

// CRC-32 of a whole file as .gnu_debuglink wants it.
StatusOr<uint32_t> FileCrc(const std::string& path);

// The build id in the bytes of a note section (as /sys/kernel/notes or /sys/module/NAME/notes/* hold it), or nothing.
std::optional<std::string> BuildIdOfNotes(std::string_view notes, bool little_endian = true, uint64_t align = 4);

}  // namespace brink::elf
