#include "elf/eh_frame.h"

#include <algorithm>
#include <optional>

#include <absl/container/flat_hash_map.h>

#include "elf/cursor.h"

namespace brink::elf {
namespace {

struct Cie {
  uint8_t pointer_encoding = 0;  // DW_EH_PE_absptr
  bool signal_frame = false;
  bool sized = false;            // augmentation 'z': its data's length is in each FDE
  uint8_t lsda_encoding = 0xff;  // DW_EH_PE_omit
};

// DW_EH_PE_*: low nibble is the format, high the base; `here` is the address of in's byte 0.
std::optional<uint64_t> ReadPointer(Cursor& in, uint8_t encoding, uint64_t here, bool is64) {
  if (encoding == 0xff || (encoding & 0x80)) return std::nullopt;
  here += in.at();
  uint64_t value = 0;
  switch (encoding & 0x0f) {
    case 0x00: value = is64 ? in.U64() : in.U32(); break;
    case 0x01: value = in.Uleb(); break;
    case 0x02: value = in.U16(); break;
    case 0x03: value = in.U32(); break;
    case 0x04: value = in.U64(); break;
    case 0x09: value = static_cast<uint64_t>(in.Sleb()); break;
    case 0x0a: value = static_cast<uint64_t>(int64_t{static_cast<int16_t>(in.U16())}); break;
    case 0x0b: value = static_cast<uint64_t>(int64_t{static_cast<int32_t>(in.U32())}); break;
    case 0x0c: value = in.U64(); break;
    default: return std::nullopt;
  }
  if (!in.ok()) return std::nullopt;
  if ((encoding & 0x70) == 0x10) {
    value += here;
  } else if ((encoding & 0x70) != 0) {
    return std::nullopt;  // relative to text, data or function: bases that only the unwinder has
  }
  return is64 ? value : value & 0xffffffff;
}

// The landing pads of one exception table, whose function begins at `start`.
void AddPads(const File& file, uint64_t lsda, uint64_t start, size_t limit, std::vector<uint64_t>* pads) {
  constexpr uint64_t kMaxTable = 1u << 20;
  auto bytes = file.ReadVaddr(lsda, kMaxTable);
  if (!bytes.ok()) return;
  Cursor in(*bytes, file.little_endian());
  const uint8_t base_encoding = in.U8();
  uint64_t base = start;
  if (base_encoding != 0xff) {
    auto given = ReadPointer(in, base_encoding, lsda, file.is64());
    if (!given) return;
    base = *given;
  }
  if (in.U8() != 0xff) in.Uleb();  // the types' table
  const uint8_t encoding = in.U8();
  const uint64_t length = in.Uleb();
  if (!in.ok() || length > in.left()) return;
  const size_t end = in.at() + length;
  while (in.ok() && in.at() < end && pads->size() < limit) {
    // Offsets, not addresses: read without a base.
    auto begin = ReadPointer(in, encoding & 0x0f, lsda, file.is64()), size = ReadPointer(in, encoding & 0x0f, lsda, file.is64()),
         pad = ReadPointer(in, encoding & 0x0f, lsda, file.is64());
    in.Uleb();
    if (!begin || !size || !pad || !in.ok()) return;
    if (*pad) pads->push_back(base + *pad);
  }
}

class Reader {
 public:
  Reader(const File& file, std::string_view bytes, uint64_t section_addr)
      : file_(file), bytes_(bytes), section_addr_(section_addr) {}

  FdeTable Run() {
    Cursor in(bytes_, file_.little_endian());
    while (!in.done()) {
      size_t entry_at = in.at();
      uint64_t length = in.U32();
      if (length == 0) {
        // A terminator; crt1.o and crtend.o may leave one in the middle.
        continue;
      }
      bool is64 = length == 0xffffffff;
      if (is64) length = in.U64();
      size_t id_at = in.at();
      std::string_view body = in.Bytes(length);
      if (!in.ok()) {
        ++table_.damaged;
        break;
      }
      ReadEntry(entry_at, id_at, body, is64);
    }
    std::sort(table_.extents.begin(), table_.extents.end(), [](const FdeExtent& a, const FdeExtent& b) {
      return a.start != b.start ? a.start < b.start : a.size < b.size;
    });
    return std::move(table_);
  }

 private:
  void ReadEntry(size_t entry_at, size_t id_at, std::string_view body, bool is64) {
    Cursor in(body, file_.little_endian());
    uint64_t id = in.Offset(is64);
    if (!in.ok()) {
      ++table_.damaged;
      return;
    }
    if (id == 0) {
      cies_[entry_at] = ReadCie(in);
      return;
    }
    if (id > id_at) {
      ++table_.damaged;
      return;
    }
    auto found = cies_.find(id_at - id);
    std::optional<Cie> cie = found == cies_.end() ? std::nullopt : found->second;
    if (!cie) {
      ++table_.damaged;
      return;
    }
    auto start = Pointer(in, cie->pointer_encoding, id_at);
    auto size = Pointer(in, cie->pointer_encoding & 0x0f, id_at);
    if (!start || !size || *size == 0 || *start + *size < *start) {
      ++table_.damaged;
      return;
    }
    if (*start == 0) return;  // a discarded function
    table_.extents.push_back({*start, *size, cie->signal_frame, Lsda(in, *cie, id_at)});
  }

  uint64_t Lsda(Cursor& in, const Cie& cie, size_t id_at) {
    if (!cie.sized || cie.lsda_encoding == 0xff || in.Uleb() == 0) return 0;
    // A zero means none, whatever it is relative to.
    Cursor peek = in;
    auto plain = ReadPointer(peek, cie.lsda_encoding & 0x0f, 0, file_.is64());
    auto value = Pointer(in, cie.lsda_encoding, id_at);
    return plain && *plain && value ? *value : 0;
  }

  std::optional<Cie> ReadCie(Cursor in) {
    Cie cie;
    uint8_t version = in.U8();
    std::string_view augmentation = in.CString();
    if (!in.ok() || (version != 1 && version != 3)) return std::nullopt;
    in.Uleb();
    in.Sleb();
    version == 1 ? static_cast<void>(in.U8()) : static_cast<void>(in.Uleb());
    if (augmentation.empty()) return in.ok() ? std::optional(cie) : std::nullopt;
    if (augmentation[0] != 'z') return std::nullopt;
    in.Uleb();
    cie.sized = true;
    for (char c : augmentation.substr(1)) {
      if (c == 'R') {
        cie.pointer_encoding = in.U8();
      } else if (c == 'L') {
        cie.lsda_encoding = in.U8();
      } else if (c == 'P') {
        uint8_t encoding = in.U8();
        if (!Pointer(in, encoding & 0x7f, 0)) return std::nullopt;
      } else if (c == 'S') {
        cie.signal_frame = true;
      } else if (c != 'B' && c != 'G') {
        return std::nullopt;
      }
    }
    return in.ok() ? std::optional(cie) : std::nullopt;
  }

  // `body_at` is the section offset of in's byte 0.
  std::optional<uint64_t> Pointer(Cursor& in, uint8_t encoding, size_t body_at) { return ReadPointer(in, encoding, section_addr_ + body_at, file_.is64()); }

  const File& file_;
  std::string_view bytes_;
  uint64_t section_addr_;
  absl::flat_hash_map<size_t, std::optional<Cie>> cies_;
  FdeTable table_;
};

}  // namespace

StatusOr<FdeTable> ReadFdeExtents(const File& file) {
  const Section* section = file.FindSection(".eh_frame");
  if (!section) return NotFound(file.name() + ": no .eh_frame");
  ASSIGN_OR_RETURN(std::string bytes, file.ReadSection(*section));
  return Reader(file, bytes, section->addr).Run();
}

std::vector<uint64_t> ReadLandingPads(const File& file, const FdeTable& table, size_t limit) {
  std::vector<uint64_t> pads;
  for (const FdeExtent& extent : table.extents) {
    if (extent.lsda) AddPads(file, extent.lsda, extent.start, limit, &pads);
  }
  std::sort(pads.begin(), pads.end());
  pads.erase(std::unique(pads.begin(), pads.end()), pads.end());
  return pads;
}

}  // namespace brink::elf
