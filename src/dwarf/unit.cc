#include "dwarf/unit.h"

namespace brink::dwarf {

using elf::Cursor;
using elf::TextAt;

std::vector<Unit> Decoder::ReadUnits() {
  std::vector<Unit> units;
  Cursor in(sections_.info, sections_.little_endian);
  while (!in.done()) {
    Unit unit;
    unit.offset = in.at();
    uint64_t length = in.U32();
    unit.is64 = length == 0xffffffff;
    if (unit.is64) length = in.U64();
    if (!in.ok() || length > in.left() || length < 7) break;
    unit.end = in.at() + length;
    unit.version = in.U16();
    uint8_t type = 1;
    if (unit.version >= 5) {
      type = in.U8();
      unit.address_size = in.U8();
      unit.abbrev_offset = in.Offset(unit.is64);
      if (type == 4 || type == 5) in.Skip(8);  // skeleton and split units carry an id
    } else {
      unit.abbrev_offset = in.Offset(unit.is64);
      unit.address_size = in.U8();
    }
    unit.die_at = in.at();
    bool usable = in.ok() && unit.version >= 2 && unit.version <= 5 && type != 2 && type != 6 && unit.die_at < unit.end &&
                  (unit.address_size == 4 || unit.address_size == 8);
    uint64_t end = unit.end;
    if (usable) units.push_back(std::move(unit));
    in.Seek(end);
  }
  return units;
}

bool Decoder::LoadAbbrevs(Unit& unit) {
  if (unit.abbrevs) return true;
  auto& cached = abbrev_cache_[unit.abbrev_offset];
  if (!cached) {
    auto table = std::make_shared<AbbrevTable>();
    Cursor in(sections_.abbrev, sections_.little_endian);
    in.Seek(unit.abbrev_offset);
    while (in.ok()) {
      uint64_t code = in.Uleb();
      if (code == 0 || abbrev_budget_ == 0) break;
      Abbrev abbrev;
      abbrev.tag = static_cast<uint32_t>(in.Uleb());
      abbrev.children = in.U8();
      abbrev.first = static_cast<uint32_t>(table->attributes.size());
      while (in.ok() && abbrev_budget_ > 0) {
        --abbrev_budget_;
        AttributeSpec spec;
        spec.name = static_cast<uint32_t>(in.Uleb());
        spec.form = static_cast<uint32_t>(in.Uleb());
        if (spec.form == 0x21) spec.implicit = in.Sleb();
        if (spec.name == 0 && spec.form == 0) break;
        table->attributes.push_back(spec);
      }
      abbrev.count = static_cast<uint32_t>(table->attributes.size()) - abbrev.first;
      if (in.ok()) table->by_code.try_emplace(code, abbrev);
    }
    cached = std::move(table);
  }
  unit.abbrevs = cached;
  return !unit.abbrevs->by_code.empty();
}

std::optional<Die> Decoder::ReadDie(const Unit& unit, Cursor& in) {
  Die die;
  die.offset = in.at();
  uint64_t code = in.Uleb();
  if (code == 0) return std::nullopt;
  auto found = unit.abbrevs->by_code.find(code);
  if (found == unit.abbrevs->by_code.end()) {
    in.Fail();
    return std::nullopt;
  }
  die.tag = found->second.tag;
  die.children = found->second.children;
  for (uint32_t i = 0; i < found->second.count; ++i) {
    const AttributeSpec& spec = unit.abbrevs->attributes[found->second.first + i];
    Attr attr = ReadAttr(unit, in, spec.form, spec.implicit);
    switch (spec.name) {
      case kAtSibling: die.sibling = attr; break;
      case kAtName: die.name = attr; break;
      case kAtLinkageName: case kAtMipsLinkageName: die.linkage_name = attr; break;
      case kAtLowPc: die.low_pc = attr; break;
      case kAtHighPc: die.high_pc = attr; break;
      case kAtRanges: die.ranges = attr; break;
      case kAtAbstractOrigin: die.origin = attr; break;
      case kAtSpecification: die.specification = attr; break;
      case kAtCallFile: die.call_file = attr; break;
      case kAtCallLine: die.call_line = attr; break;
      case kAtCallColumn: die.call_column = attr; break;
      case kAtStmtList: die.stmt_list = attr; break;
      case kAtCompDir: die.comp_dir = attr; break;
      case kAtStrOffsetsBase: die.str_offsets_base = attr; break;
      case kAtAddrBase: die.addr_base = attr; break;
      case kAtRnglistsBase: die.rnglists_base = attr; break;
      default: break;
    }
  }
  if (!in.ok()) return std::nullopt;
  return die;
}

Attr Decoder::ReadAttr(const Unit& unit, Cursor& in, uint32_t form, int64_t implicit) {
  for (int hops = 0; form == 0x16 && hops < 4; ++hops) form = static_cast<uint32_t>(in.Uleb());  // indirect
  switch (form) {
    case 0x01: return {AttrClass::kAddress, in.Sized(unit.address_size), {}};
    case 0x0b: case 0x0c: return {AttrClass::kConstant, in.U8(), {}};
    case 0x05: return {AttrClass::kConstant, in.U16(), {}};
    case 0x06: return {unit.version < 4 ? AttrClass::kOffset : AttrClass::kConstant, in.U32(), {}};
    case 0x07: return {unit.version < 4 ? AttrClass::kOffset : AttrClass::kConstant, in.U64(), {}};
    case 0x0d: return {AttrClass::kConstant, static_cast<uint64_t>(in.Sleb()), {}};
    case 0x0f: return {AttrClass::kConstant, in.Uleb(), {}};
    case 0x19: return {AttrClass::kConstant, 1, {}};
    case 0x21: return {AttrClass::kConstant, static_cast<uint64_t>(implicit), {}};
    case 0x08: return {AttrClass::kText, 0, in.CString()};
    case 0x0e: return {AttrClass::kText, 0, TextAt(sections_.str, in.Offset(unit.is64))};
    case 0x1f: return {AttrClass::kText, 0, TextAt(sections_.line_str, in.Offset(unit.is64))};
    case 0x11: return {AttrClass::kUnitRef, in.U8(), {}};
    case 0x12: return {AttrClass::kUnitRef, in.U16(), {}};
    case 0x13: return {AttrClass::kUnitRef, in.U32(), {}};
    case 0x14: return {AttrClass::kUnitRef, in.U64(), {}};
    case 0x15: return {AttrClass::kUnitRef, in.Uleb(), {}};
    case 0x10: return {AttrClass::kInfoRef, unit.version < 3 ? in.Sized(unit.address_size) : in.Offset(unit.is64), {}};
    case 0x17: return {AttrClass::kOffset, in.Offset(unit.is64), {}};
    default: return ReadWide(unit, in, form);
  }
}

// Indexed forms, blocks and forms whose value is of no use here.
Attr Decoder::ReadWide(const Unit& unit, Cursor& in, uint32_t form) {
  switch (form) {
    case 0x1a: case 0x1f02: return {AttrClass::kTextIndex, in.Uleb(), {}};
    case 0x25: return {AttrClass::kTextIndex, in.U8(), {}};
    case 0x26: return {AttrClass::kTextIndex, in.U16(), {}};
    case 0x27: return {AttrClass::kTextIndex, in.Sized(3), {}};
    case 0x28: return {AttrClass::kTextIndex, in.U32(), {}};
    case 0x1b: case 0x1f01: return {AttrClass::kAddressIndex, in.Uleb(), {}};
    case 0x29: return {AttrClass::kAddressIndex, in.U8(), {}};
    case 0x2a: return {AttrClass::kAddressIndex, in.U16(), {}};
    case 0x2b: return {AttrClass::kAddressIndex, in.Sized(3), {}};
    case 0x2c: return {AttrClass::kAddressIndex, in.U32(), {}};
    case 0x22: return {AttrClass::kOther, in.Uleb(), {}};      // loclistx
    case 0x23: return {AttrClass::kListIndex, in.Uleb(), {}};  // rnglistx
    case 0x03: in.Skip(in.U16()); break;
    case 0x04: in.Skip(in.U32()); break;
    case 0x09: case 0x18: in.Skip(in.Uleb()); break;
    case 0x0a: in.Skip(in.U8()); break;
    case 0x1e: in.Skip(16); break;
    case 0x20: in.Skip(8); break;
    case 0x1c: in.Skip(4); break;
    case 0x24: in.Skip(8); break;
    case 0x1d: case 0x1f20: case 0x1f21: in.Offset(unit.is64); break;  // in dwz's alternate file
    default: in.Fail(); break;
  }
  return {AttrClass::kOther, 0, {}};
}

std::string_view Decoder::TextOf(const Unit& unit, const Attr& attr) const {
  if (attr.kind == AttrClass::kText) return attr.text;
  if (attr.kind != AttrClass::kTextIndex || attr.number > sections_.str_offsets.size()) return {};
  Cursor in(sections_.str_offsets, sections_.little_endian);
  in.Seek(unit.str_offsets_base + attr.number * (unit.is64 ? 8 : 4));
  uint64_t offset = in.Offset(unit.is64);
  return in.ok() ? TextAt(sections_.str, offset) : std::string_view();
}

std::optional<uint64_t> Decoder::IndexedAddress(const Unit& unit, uint64_t index) const {
  if (index > sections_.addr.size()) return std::nullopt;
  Cursor in(sections_.addr, sections_.little_endian);
  in.Seek(unit.addr_base + index * unit.address_size);
  uint64_t address = in.Sized(unit.address_size);
  return in.ok() ? std::optional(address) : std::nullopt;
}

std::optional<uint64_t> Decoder::AddressOf(const Unit& unit, const Attr& attr) const {
  if (attr.kind == AttrClass::kAddress) return attr.number;
  if (attr.kind == AttrClass::kAddressIndex) return IndexedAddress(unit, attr.number);
  return std::nullopt;
}

std::vector<std::pair<uint64_t, uint64_t>> Decoder::RangesOf(const Unit& unit, const Die& die) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  if (die.ranges.kind == AttrClass::kListIndex) {
    const unsigned width = unit.is64 ? 8 : 4;
    if (die.ranges.number > sections_.rnglists.size()) return ranges;
    Cursor in(sections_.rnglists, sections_.little_endian);
    in.Seek(unit.rnglists_base + die.ranges.number * width);
    uint64_t offset = in.Offset(unit.is64);
    if (in.ok()) ReadRanges5(unit, unit.rnglists_base + offset, &ranges);
  } else if (die.ranges.kind == AttrClass::kOffset || die.ranges.kind == AttrClass::kConstant) {
    unit.version >= 5 ? ReadRanges5(unit, die.ranges.number, &ranges) : ReadRanges4(unit, die.ranges.number, &ranges);
  } else if (auto low = AddressOf(unit, die.low_pc)) {
    auto high = AddressOf(unit, die.high_pc);
    if (!high && die.high_pc.kind != AttrClass::kNone) high = *low + die.high_pc.number;
    if (high && range_budget_ > 0) ranges.emplace_back(*low, *high);
  }
  return ranges;
}

void Decoder::ReadRanges4(const Unit& unit, uint64_t offset, std::vector<std::pair<uint64_t, uint64_t>>* out) {
  Cursor in(sections_.ranges, sections_.little_endian);
  in.Seek(offset);
  const uint64_t select = unit.address_size == 4 ? 0xffffffff : ~uint64_t{0};
  uint64_t base = unit.low_pc;
  while (in.ok() && range_budget_ > 0) {
    --range_budget_;
    uint64_t low = in.Sized(unit.address_size), high = in.Sized(unit.address_size);
    if (!in.ok() || (low == 0 && high == 0)) return;
    if (low == select) {
      base = high;
    } else {
      out->emplace_back(base + low, base + high);
    }
  }
}

void Decoder::ReadRanges5(const Unit& unit, uint64_t offset, std::vector<std::pair<uint64_t, uint64_t>>* out) {
  Cursor in(sections_.rnglists, sections_.little_endian);
  in.Seek(offset);
  uint64_t base = unit.low_pc;
  while (in.ok() && range_budget_ > 0) {
    --range_budget_;
    uint8_t kind = in.U8();
    if (!in.ok() || kind == 0) return;
    uint64_t low = 0, high = 0;
    auto indexed = [&] { return IndexedAddress(unit, in.Uleb()).value_or(0); };
    switch (kind) {
      case 1: base = indexed(); continue;
      case 2: low = indexed(), high = indexed(); break;
      case 3: low = indexed(), high = low + in.Uleb(); break;
      case 4: low = base + in.Uleb(), high = base + in.Uleb(); break;
      case 5: base = in.Sized(unit.address_size); continue;
      case 6: low = in.Sized(unit.address_size), high = in.Sized(unit.address_size); break;
      case 7: low = in.Sized(unit.address_size), high = low + in.Uleb(); break;
      default: return;
    }
    if (in.ok()) out->emplace_back(low, high);
  }
}

}  // namespace brink::dwarf
