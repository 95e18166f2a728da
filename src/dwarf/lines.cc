#include "dwarf/lines.h"

#include <absl/strings/str_format.h>

#include "elf/cursor.h"

namespace brink::dwarf {
namespace {

using elf::Cursor;
using elf::TextAt;

constexpr uint64_t kMaxFiles = 1u << 20;
constexpr size_t kMaxPath = 4096;

enum : unsigned { kFormString = 0x08, kFormLineStrp = 0x1f, kFormStrp = 0x0e, kFormUdata = 0x0f, kFormData1 = 0x0b, kFormData2 = 0x05,
                  kFormData4 = 0x06, kFormData8 = 0x07, kFormData16 = 0x1e, kFormBlock = 0x09 };

std::string Join(std::string_view folder, std::string_view name) {
  if (folder.empty() || name.starts_with('/')) return std::string(name.substr(0, kMaxPath));
  std::string path(folder.substr(0, kMaxPath));
  if (!path.ends_with('/')) path += '/';
  return path.append(name.substr(0, kMaxPath));
}

struct Value {
  uint64_t number = 0;
  std::string_view text;
};

class Program {
 public:
  Program(const LineSections& sections, std::string_view comp_dir, unsigned address_size)
      : sections_(sections), comp_dir_(comp_dir), address_size_(address_size) {}

  StatusOr<LineTable> Run(uint64_t offset) {
    Cursor in(sections_.line, sections_.little_endian);
    in.Seek(offset);
    uint64_t length = in.U32();
    is64_ = length == 0xffffffff;
    if (is64_) length = in.U64();
    std::string_view unit = in.Bytes(length);
    if (!in.ok()) return DataLoss("line table cut short");
    Cursor body(unit, sections_.little_endian);
    RETURN_IF_ERROR(ReadHeader(body));
    Execute(body);
    SortSequences();
    return std::move(table_);
  }

 private:
  Status ReadHeader(Cursor& in) {
    version_ = in.U16();
    if (version_ < 2 || version_ > 5) return Unimplemented(absl::StrFormat("line table of version %d", version_));
    if (version_ >= 5) {
      address_size_ = in.U8();
      in.U8();
    }
    uint64_t header_length = in.Offset(is64_);
    size_t program_at = in.at();
    if (header_length > in.left()) return DataLoss("line table header cut short");
    program_at += static_cast<size_t>(header_length);
    min_instruction_ = in.U8();
    if (version_ >= 4) in.U8();  // operations per instruction: VLIW only
    default_is_stmt_ = in.U8();
    line_base_ = static_cast<int8_t>(in.U8());
    line_range_ = in.U8();
    opcode_base_ = in.U8();
    if (line_range_ == 0 || opcode_base_ == 0) return DataLoss("line table header makes no sense");
    for (unsigned i = 1; i < opcode_base_; ++i) operand_counts_.push_back(in.U8());
    version_ >= 5 ? ReadTables5(in) : ReadTables2(in);
    if (!in.ok()) return DataLoss("line table header cut short");
    in.Seek(program_at);
    return OkStatus();
  }

  void ReadTables2(Cursor& in) {
    table_.folders.push_back(comp_dir_);
    while (in.ok()) {
      std::string_view folder = in.CString();
      if (folder.empty() || table_.folders.size() > kMaxFiles) break;
      table_.folders.push_back(folder);
    }
    table_.files.emplace_back();  // numbered from 1
    while (in.ok()) {
      std::string_view name = in.CString();
      if (name.empty() || table_.files.size() > kMaxFiles) break;
      AddFile(name, in.Uleb());
      in.Uleb(), in.Uleb();
    }
  }

  void AddFile(std::string_view name, uint64_t folder) { table_.files.push_back({name, folder}); }

  void ReadTables5(Cursor& in) {
    ReadEntries(in, [&](std::string_view name, uint64_t) { table_.folders.push_back(name); });
    ReadEntries(in, [&](std::string_view name, uint64_t folder) { AddFile(name, folder); });
  }

  template <typename Add>
  void ReadEntries(Cursor& in, Add add) {
    std::vector<std::pair<uint64_t, unsigned>> format;
    for (unsigned count = in.U8(); count > 0; --count) {
      uint64_t content = in.Uleb();
      format.emplace_back(content, static_cast<unsigned>(in.Uleb()));
    }
    uint64_t count = in.Uleb();
    if (format.empty() && count > 0) return in.Fail();
    // Each entry costs at least one byte of the header, so its length bounds the count.
    if (count > in.left()) return in.Fail();
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      std::string_view name;
      uint64_t folder = 0;
      for (auto [content, form] : format) {
        Value value = ReadForm(in, form);
        if (content == 1) name = value.text;
        if (content == 2) folder = value.number;
      }
      if (in.ok()) add(name, folder);
    }
  }

  Value ReadForm(Cursor& in, unsigned form) {
    switch (form) {
      case kFormString: return {0, in.CString()};
      case kFormLineStrp: return {0, TextAt(sections_.line_str, in.Offset(is64_))};
      case kFormStrp: return {0, TextAt(sections_.str, in.Offset(is64_))};
      case kFormUdata: return {in.Uleb(), {}};
      case kFormData1: return {in.U8(), {}};
      case kFormData2: return {in.U16(), {}};
      case kFormData4: return {in.U32(), {}};
      case kFormData8: return {in.U64(), {}};
      case kFormData16: in.Skip(16); return {};
      case kFormBlock: in.Skip(in.Uleb()); return {};
      default: in.Fail(); return {};
    }
  }

  void Reset() {
    row_ = LineRow{};
    row_.file = 1;
    row_.line = 1;
    row_.is_stmt = default_is_stmt_;
  }

  void Emit() {
    table_.rows.push_back(row_);
    if (!row_.end_sequence) return;
    const LineRow& first = table_.rows[sequence_at_];
    const uint64_t tombstone = address_size_ == 4 ? 0xffffffff : ~uint64_t{0};
    bool ascending = true;
    for (size_t i = sequence_at_ + 1; i < table_.rows.size(); ++i) ascending &= table_.rows[i - 1].address <= table_.rows[i].address;
    if ((first.address == 0 && !sections_.zero_is_code) || first.address >= tombstone - 1 || !ascending) table_.rows.resize(sequence_at_);
    else sequences_.push_back({sequence_at_, table_.rows.size()});
    sequence_at_ = table_.rows.size();
    Reset();
  }

  void Advance(uint64_t operations) { row_.address += operations * min_instruction_; }

  void Execute(Cursor& in) {
    Reset();
    while (!in.done()) {
      uint8_t opcode = in.U8();
      if (opcode >= opcode_base_) {
        unsigned adjusted = opcode - opcode_base_;
        Advance(adjusted / line_range_);
        row_.line += static_cast<uint32_t>(line_base_ + static_cast<int>(adjusted % line_range_));
        Emit();
      } else if (opcode == 0) {
        Extended(in);
      } else {
        Standard(in, opcode);
      }
    }
    table_.rows.resize(sequence_at_);  // a sequence without an end has no extent
  }

  void Extended(Cursor& in) {
    std::string_view bytes = in.Bytes(in.Uleb());
    if (!in.ok() || bytes.empty()) return;
    Cursor args(bytes, sections_.little_endian);
    uint8_t opcode = args.U8();
    if (opcode == 1) {
      row_.end_sequence = true;
      Emit();
    } else if (opcode == 2) {
      row_.address = args.Sized(static_cast<unsigned>(bytes.size() - 1));
    } else if (opcode == 3) {
      std::string_view name = args.CString();
      uint64_t folder = args.Uleb();
      if (args.ok() && table_.files.size() < kMaxFiles) AddFile(name, folder);
    }
  }

  void Standard(Cursor& in, uint8_t opcode) {
    switch (opcode) {
      case 1: return Emit();
      case 2: return Advance(in.Uleb());
      case 3: row_.line += static_cast<uint32_t>(in.Sleb()); return;
      case 4: row_.file = static_cast<uint32_t>(in.Uleb()); return;
      case 5: row_.column = static_cast<uint32_t>(in.Uleb()); return;
      case 6: row_.is_stmt = !row_.is_stmt; return;
      case 7: case 10: case 11: return;
      case 8: return Advance((255u - opcode_base_) / line_range_);
      case 9: row_.address += in.U16(); return;
      default:
        for (unsigned i = operand_counts_[opcode - 1u]; i > 0; --i) in.Uleb();
    }
  }

  void SortSequences() {
    auto start = [&](const std::pair<size_t, size_t>& s) { return table_.rows[s.first].address; };
    std::stable_sort(sequences_.begin(), sequences_.end(), [&](auto& a, auto& b) { return start(a) < start(b); });
    std::vector<LineRow> sorted;
    sorted.reserve(table_.rows.size());
    for (auto [begin, end] : sequences_) sorted.insert(sorted.end(), table_.rows.begin() + static_cast<std::ptrdiff_t>(begin), table_.rows.begin() + static_cast<std::ptrdiff_t>(end));
    table_.rows = std::move(sorted);
  }

  const LineSections& sections_;
  std::string_view comp_dir_;
  unsigned address_size_;
  LineTable table_;
  std::vector<uint8_t> operand_counts_;
  std::vector<std::pair<size_t, size_t>> sequences_;
  LineRow row_;
  size_t sequence_at_ = 0;
  uint16_t version_ = 0;
  unsigned min_instruction_ = 1;
  unsigned line_range_ = 1;
  unsigned opcode_base_ = 1;
  int line_base_ = 0;
  bool default_is_stmt_ = true;
  bool is64_ = false;
};

}  // namespace

std::string LineTable::FileName(uint64_t file) const {
  if (file >= files.size() || files[file].name.empty()) return "";
  const FileEntry& entry = files[file];
  std::string_view folder = entry.folder < folders.size() ? folders[entry.folder] : std::string_view();
  if (folder.starts_with('/') || folders.empty()) return Join(folder, entry.name);
  return Join(entry.folder == 0 ? std::string(folder) : Join(folders[0], folder), entry.name);
}

const LineRow* LineTable::Find(uint64_t address) const {
  auto above = std::upper_bound(rows.begin(), rows.end(), address, [](uint64_t value, const LineRow& row) { return value < row.address; });
  if (above == rows.begin()) return nullptr;
  const LineRow* row = &*std::prev(above);
  return row->end_sequence ? nullptr : row;
}

StatusOr<LineTable> ReadLineTable(const LineSections& sections, uint64_t offset, std::string_view comp_dir, unsigned address_size) {
  return Program(sections, comp_dir, address_size).Run(offset);
}

}  // namespace brink::dwarf
