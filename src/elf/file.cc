#include "elf/file.h"

#include <cerrno>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <absl/strings/str_format.h>
#include <zlib.h>

#include "base/regular_file.h"
#include "base/strings.h"
#include "elf/compress.h"
#include "elf/cursor.h"

namespace brink::elf {
namespace {

constexpr uint32_t kMaxSegments = 65536;
constexpr uint32_t kMaxSections = 1u << 20;
constexpr uint64_t kMaxNotes = 1u << 20;
constexpr uint64_t kPage = 4096;

// A sparse file costs its maker nothing and its reader memory. More than this is read only from files that hold at least a
// part of it on the disk (file systems may compress).
constexpr uint64_t kMaxHole = 8u << 20;
constexpr uint64_t kMaxDiskExpansion = 32;

bool MostlyHoles(int fd, uint64_t size) {
  struct stat info;
  constexpr uint64_t kBlock = 512;
  return size > kMaxHole && fstat(fd, &info) == 0 && size / kMaxDiskExpansion > static_cast<uint64_t>(info.st_blocks) * kBlock;
}

uint64_t Word(Cursor& in, bool is64) { return is64 ? in.U64() : in.U32(); }

}  // namespace

StatusOr<File> File::Open(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path));
  return FromFd(std::move(fd), path);
}

StatusOr<File> File::FromFd(UniqueFd fd, std::string name) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoError(errno, name);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(name + ": not a regular file");
  File file;
  file.name_ = std::move(name);
  file.fd_ = std::move(fd);
  file.size_ = static_cast<uint64_t>(info.st_size);
  RETURN_IF_ERROR(file.ReadHeaders());
  return file;
}

StatusOr<File> File::FromBytes(std::string bytes, std::string name) {
  File file;
  file.name_ = std::move(name);
  file.size_ = bytes.size();
  file.bytes_ = std::move(bytes);
  file.in_memory_ = true;
  RETURN_IF_ERROR(file.ReadHeaders());
  return file;
}

StatusOr<std::string> File::ReadRange(uint64_t offset, uint64_t size) const {
  if (offset > size_ || size > size_ - offset) {
    return DataLoss(absl::StrFormat("%s: bytes %#x..%#x lie beyond the file's end at %#x", EscapeForTerminal(name_), offset,
                                    offset + size, size_));
  }
  if (in_memory_) return bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
  if (MostlyHoles(fd_.get(), size)) return ResourceExhausted(absl::StrFormat("%s: %d bytes are asked for of a file of holes", EscapeForTerminal(name_), size));
  std::string out(static_cast<size_t>(size), '\0');
  size_t got = 0;
  while (got < out.size()) {
    ssize_t n = pread(fd_.get(), out.data() + got, out.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, name_);
    if (n == 0) return DataLoss(EscapeForTerminal(name_) + ": the file became shorter while it was read");
    got += static_cast<size_t>(n);
  }
  return out;
}

Status File::ReadHeaders() {
  auto bytes = ReadRange(0, std::min<uint64_t>(size_, 64));
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < 52 || bytes->compare(0, 4, "\x7f"
                                                 "ELF") != 0) {
    return InvalidArgument(EscapeForTerminal(name_) + ": not an ELF file");
  }
  is64_ = (*bytes)[EI_CLASS] == ELFCLASS64;
  little_ = (*bytes)[EI_DATA] != ELFDATA2MSB;
  if (is64_ && bytes->size() < 64) return InvalidArgument(EscapeForTerminal(name_) + ": ELF header cut short");
  Cursor in(*bytes, little_, EI_NIDENT);
  type_ = in.U16();
  machine_ = in.U16();
  in.U32();
  entry_ = Word(in, is64_);
  uint64_t segments_at = Word(in, is64_);
  uint64_t sections_at = Word(in, is64_);
  in.U32();
  in.U16();
  uint16_t segment_size = in.U16();
  uint32_t segment_count = in.U16();
  uint16_t section_size = in.U16();
  uint32_t section_count = in.U16();
  uint32_t names_index = in.U16();

  const uint64_t least = is64_ ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  if (sections_at != 0 && section_size >= least) {
    // Counts that do not fit the header stand in section 0.
    auto first = ReadRange(sections_at, least);
    if (first.ok()) {
      Cursor zero(*first, little_, 8);
      Word(zero, is64_), Word(zero, is64_), Word(zero, is64_);
      uint64_t size = Word(zero, is64_);
      uint32_t link = zero.U32(), info = zero.U32();
      if (section_count == 0) section_count = static_cast<uint32_t>(std::min<uint64_t>(size, kMaxSections));
      if (names_index == SHN_XINDEX) names_index = link;
      if (segment_count == PN_XNUM) segment_count = info;
    }
    // A broken section table leaves the segments, which is what execution needs.
    (void)ReadSectionHeaders(sections_at, section_count, section_size, names_index);
  }
  if (segments_at != 0) ReadSegments(segments_at, std::min(segment_count, kMaxSegments), segment_size);
  return OkStatus();
}

void File::ReadSegments(uint64_t offset, uint32_t count, uint16_t entry_size) {
  if (entry_size < (is64_ ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr))) return;
  if (offset >= size_) return;
  count = static_cast<uint32_t>(std::min<uint64_t>(count, (size_ - offset) / entry_size));
  auto table = ReadRange(offset, uint64_t{count} * entry_size);
  if (!table.ok()) return;
  for (uint32_t i = 0; i < count; ++i) {
    Cursor in(*table, little_, size_t{i} * entry_size);
    Segment segment;
    segment.type = in.U32();
    if (is64_) segment.flags = in.U32();
    segment.offset = Word(in, is64_);
    segment.vaddr = Word(in, is64_);
    Word(in, is64_);
    segment.file_size = Word(in, is64_);
    segment.mem_size = Word(in, is64_);
    if (!is64_) segment.flags = in.U32();
    segment.align = Word(in, is64_);
    if (in.ok()) segments_.push_back(segment);
  }
}

Status File::ReadSectionHeaders(uint64_t offset, uint32_t count, uint16_t entry_size, uint32_t names_index) {
  if (offset >= size_) return DataLoss("section headers beyond the end");
  count = static_cast<uint32_t>(std::min<uint64_t>(std::min(count, kMaxSections), (size_ - offset) / entry_size));
  ASSIGN_OR_RETURN(std::string table, ReadRange(offset, uint64_t{count} * entry_size));
  std::vector<uint32_t> name_offsets;
  for (uint32_t i = 0; i < count; ++i) {
    Cursor in(table, little_, size_t{i} * entry_size);
    Section section;
    name_offsets.push_back(in.U32());
    section.type = in.U32();
    section.flags = Word(in, is64_);
    section.addr = Word(in, is64_);
    section.offset = Word(in, is64_);
    section.size = Word(in, is64_);
    section.link = in.U32();
    section.info = in.U32();
    section.align = Word(in, is64_);
    section.entry_size = Word(in, is64_);
    sections_.push_back(std::move(section));
  }
  if (names_index >= sections_.size()) return OkStatus();
  ASSIGN_OR_RETURN(std::string names, ReadSection(sections_[names_index]));
  for (size_t i = 0; i < sections_.size(); ++i) {
    // Section names are short; a hostile table must not make us copy the same megabyte a million times.
    sections_[i].name = std::string(TextAt(names, name_offsets[i]).substr(0, 256));
  }
  if (type_ == ET_REL) LayOutSections();
  return OkStatus();
}

void File::LayOutSections() {
  constexpr uint64_t kDiscarded = uint64_t{1} << 40;
  uint64_t core = 0, init = kDiscarded;
  for (Section& section : sections_) {
    constexpr uint64_t kCode = SHF_ALLOC | SHF_EXECINSTR;
    if ((section.flags & kCode) != kCode || section.size > size_) continue;
    uint64_t& next = section.name.starts_with(".init") ? init : core;
    uint64_t align = section.align;
    if (align == 0 || (align & (align - 1)) != 0 || align > (1u << 20)) align = 1;
    section.addr = (next + align - 1) & ~(align - 1);
    next = section.addr + section.size;
  }
}

const Section* File::FindSection(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

StatusOr<std::string> File::ReadSection(const Section& section) const {
  if (!section.has_bytes()) return NotFound("section " + EscapeForTerminal(section.name) + " has no bytes in this file");
  ASSIGN_OR_RETURN(std::string bytes, ReadRange(section.offset, section.size));
  if (section.flags & SHF_COMPRESSED) {
    Cursor in(bytes, little_);
    uint32_t method = in.U32();
    if (is64_) in.U32();
    uint64_t size = Word(in, is64_);
    Word(in, is64_);
    if (!in.ok()) return DataLoss("section " + EscapeForTerminal(section.name) + ": compression header cut short");
    return Decompress(method, in.Bytes(in.left()), size);
  }
  if (section.name.starts_with(".zdebug") && bytes.size() >= 12 && bytes.compare(0, 4, "ZLIB") == 0) {
    Cursor in(bytes, /*little_endian=*/false, 4);
    uint64_t size = in.U64();
    return Decompress(ELFCOMPRESS_ZLIB, in.Bytes(in.left()), size);
  }
  return bytes;
}

StatusOr<std::string> File::ReadSection(std::string_view name) const {
  const Section* section = FindSection(name);
  if (!section) return NotFound(EscapeForTerminal(name_) + ": no section " + std::string(name));
  return ReadSection(*section);
}

StatusOr<std::string> File::ReadVaddr(uint64_t vaddr, uint64_t size) const {
  for (const Segment& segment : segments_) {
    if (!segment.load() || vaddr < segment.vaddr || vaddr - segment.vaddr >= segment.file_size) continue;
    uint64_t inside = vaddr - segment.vaddr;
    return ReadRange(segment.offset + inside, std::min(size, segment.file_size - inside));
  }
  for (const Section& section : sections_) {
    if (!section.has_bytes() || section.addr == 0 || vaddr < section.addr || vaddr - section.addr >= section.size) continue;
    uint64_t inside = vaddr - section.addr;
    return ReadRange(section.offset + inside, std::min(size, section.size - inside));
  }
  return NotFound(absl::StrFormat("%s: address %#x is in no segment of the file", EscapeForTerminal(name_), vaddr));
}

std::optional<std::string> BuildIdOfNotes(std::string_view notes, bool little_endian, uint64_t align) {
  const uint64_t mask = (align == 8 ? 8 : 4) - 1;
  Cursor in(notes, little_endian);
  while (in.ok() && in.left() >= 12) {
    uint64_t name_size = in.U32(), desc_size = in.U32();
    uint32_t type = in.U32();
    std::string_view name = in.Bytes(name_size);
    in.Skip(std::min<uint64_t>(((name_size + mask) & ~mask) - name_size, in.left()));
    std::string_view desc = in.Bytes(desc_size);
    in.Skip(std::min<uint64_t>(((desc_size + mask) & ~mask) - desc_size, in.left()));
    if (!in.ok()) return std::nullopt;
    if (type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4) && !desc.empty() && desc.size() <= 64) {
      return std::string(desc);
    }
  }
  return std::nullopt;
}

std::optional<std::string> File::BuildIdInNotes(std::string_view notes, uint64_t align) const {
  return BuildIdOfNotes(notes, little_, align);
}

std::optional<std::string> File::BuildId() const {
  for (const Segment& segment : segments_) {
    if (segment.type != PT_NOTE || segment.file_size > kMaxNotes) continue;
    auto notes = ReadRange(segment.offset, segment.file_size);
    if (!notes.ok()) continue;
    if (auto id = BuildIdInNotes(*notes, segment.align)) return id;
  }
  for (const Section& section : sections_) {
    if (section.type != SHT_NOTE || section.size > kMaxNotes) continue;
    auto notes = ReadSection(section);
    if (!notes.ok()) continue;
    if (auto id = BuildIdInNotes(*notes, section.name == ".note.gnu.property" ? 8 : 4)) return id;
  }
  return std::nullopt;
}

std::optional<DebugLink> File::debug_link() const {
  const Section* section = FindSection(".gnu_debuglink");
  if (!section || section->size > 4096) return std::nullopt;
  auto bytes = ReadSection(*section);
  if (!bytes.ok()) return std::nullopt;
  Cursor in(*bytes, little_);
  DebugLink link;
  link.name = std::string(in.CString());
  in.Seek((in.at() + 3) & ~size_t{3});
  link.crc = in.U32();
  // A name with a folder in it would let a hostile file choose what we open.
  if (!in.ok() || link.name.empty() || link.name.find('/') != std::string::npos || link.name == "..") return std::nullopt;
  return link;
}

std::optional<uint64_t> File::OffsetToVaddr(uint64_t offset) const {
  for (bool executable : {true, false}) {
    for (const Segment& segment : segments_) {
      if (!segment.load() || segment.executable() != executable) continue;
      if (offset >= segment.offset && offset - segment.offset < segment.file_size) return offset - segment.offset + segment.vaddr;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> File::VaddrToOffset(uint64_t vaddr) const {
  for (const Segment& segment : segments_) {
    if (segment.load() && vaddr >= segment.vaddr && vaddr - segment.vaddr < segment.file_size) {
      return vaddr - segment.vaddr + segment.offset;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> File::LoadBias(uint64_t start, uint64_t page_offset, bool executable) const {
  for (bool want : {executable, !executable}) {
    for (const Segment& segment : segments_) {
      if (!segment.load() || segment.executable() != want || segment.file_size == 0) continue;
      uint64_t first_page = segment.offset & ~(kPage - 1);
      uint64_t last_byte = segment.offset + segment.file_size - 1;
      if (last_byte < segment.offset || page_offset < first_page || page_offset > last_byte) continue;
      // The page at page_offset holds the segment's address vaddr + (page_offset - offset), also when that is "before" it.
      return start - (segment.vaddr + (page_offset - segment.offset));
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> File::FirstLoadVaddr() const {
  std::optional<uint64_t> lowest;
  for (const Segment& segment : segments_) {
    if (segment.load() && (!lowest || segment.vaddr < *lowest)) lowest = segment.vaddr;
  }
  return lowest;
}

StatusOr<uint32_t> FileCrc(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular(path));
  std::string buffer(256 << 10, '\0');
  uLong crc = crc32(0, nullptr, 0);
  while (true) {
    ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, path);
    if (n == 0) return static_cast<uint32_t>(crc);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(buffer.data()), static_cast<uInt>(n));
  }
}

}  // namespace brink::elf
