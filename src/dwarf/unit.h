// Units, abbreviations and attributes of .debug_info; internal to this module.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "dwarf/intervals.h"
#include "dwarf/lines.h"
#include "elf/cursor.h"

namespace brink::dwarf {

enum Tag : uint32_t {
  kTagLexicalBlock = 0x0b, kTagCompileUnit = 0x11, kTagInlinedSubroutine = 0x1d, kTagModule = 0x1e, kTagStructure = 0x13,
  kTagUnion = 0x17, kTagClass = 0x02, kTagSubprogram = 0x2e, kTagNamespace = 0x39, kTagPartialUnit = 0x3c, kTagSkeletonUnit = 0x4a,
  kTagCatch = 0x25, kTagTry = 0x32,
};
enum At : uint32_t {
  kAtSibling = 0x01, kAtName = 0x03, kAtStmtList = 0x10, kAtLowPc = 0x11, kAtHighPc = 0x12, kAtCompDir = 0x1b,
  kAtAbstractOrigin = 0x31, kAtSpecification = 0x47, kAtRanges = 0x55, kAtCallColumn = 0x57, kAtCallFile = 0x58, kAtCallLine = 0x59,
  kAtLinkageName = 0x6e, kAtStrOffsetsBase = 0x72, kAtAddrBase = 0x73, kAtRnglistsBase = 0x74, kAtMipsLinkageName = 0x2007,
};

struct Sections {
  std::string info, abbrev, str, line, line_str, str_offsets, addr, ranges, rnglists;
  bool little_endian = true;
  bool relocatable = false;
};

struct AttributeSpec {
  uint32_t name = 0;
  uint32_t form = 0;
  int64_t implicit = 0;
};
struct Abbrev {
  uint32_t tag = 0;
  bool children = false;
  uint32_t first = 0, count = 0;  // in AbbrevTable::attributes
};
struct AbbrevTable {
  absl::flat_hash_map<uint64_t, Abbrev> by_code;
  std::vector<AttributeSpec> attributes;
};

enum class AttrClass : uint8_t { kNone, kConstant, kAddress, kAddressIndex, kText, kTextIndex, kUnitRef, kInfoRef, kOffset, kListIndex, kOther };
struct Attr {
  AttrClass kind = AttrClass::kNone;
  uint64_t number = 0;
  std::string_view text;
};

struct Scope {
  int32_t parent = -1;      // enclosing function scope of the unit
  uint32_t depth = 0;
  bool inlined = false;
  uint64_t origin = 0;      // .debug_info offset of the entry that names it
  uint32_t call_file = 0, call_line = 0, call_column = 0;
};

struct Unit {
  uint64_t offset = 0, die_at = 0, end = 0;
  uint16_t version = 0;
  uint8_t address_size = 8;
  bool is64 = false;
  uint64_t abbrev_offset = 0;
  std::shared_ptr<const AbbrevTable> abbrevs;
  std::string_view comp_dir;
  std::optional<uint64_t> stmt_list;
  uint64_t low_pc = 0, str_offsets_base = 0, addr_base = 0, rnglists_base = 0;
  bool scopes_read = false;
  bool rangeless = false;  // the unit's own entry states no addresses
  std::vector<Scope> scopes;
  Intervals scope_ranges;
};

// One entry's attributes of interest, gathered in one pass.
struct Die {
  uint64_t offset = 0;
  uint32_t tag = 0;
  bool children = false;
  Attr sibling, name, linkage_name, low_pc, high_pc, ranges, origin, specification, call_file, call_line, call_column, stmt_list,
      comp_dir, str_offsets_base, addr_base, rnglists_base;
};

class Decoder {
 public:
  explicit Decoder(const Sections& sections) : sections_(sections), abbrev_budget_(sections.abbrev.size() + 1024) {
    range_budget_ = sections.info.size() / 2 + sections.ranges.size() + sections.rnglists.size() + 1024;
  }

  // Every unit header; damage ends the list.
  std::vector<Unit> ReadUnits();
  // The entry at in.at(); nothing at an end-of-children mark (tag 0 with ok()) or on damage (!in.ok()).
  std::optional<Die> ReadDie(const Unit& unit, elf::Cursor& in);
  bool LoadAbbrevs(Unit& unit);

  std::string_view TextOf(const Unit& unit, const Attr& attr) const;
  std::optional<uint64_t> AddressOf(const Unit& unit, const Attr& attr) const;
  // Calls add(low, high) for the ranges of an entry (low/high or a list). Stops when the work budget is used up.
  template <typename Add>
  void ForRanges(const Unit& unit, const Die& die, Add add);

 private:
  Attr ReadAttr(const Unit& unit, elf::Cursor& in, uint32_t form, int64_t implicit);
  Attr ReadWide(const Unit& unit, elf::Cursor& in, uint32_t form);
  void ReadRanges4(const Unit& unit, uint64_t offset, std::vector<std::pair<uint64_t, uint64_t>>* out);
  void ReadRanges5(const Unit& unit, uint64_t offset, std::vector<std::pair<uint64_t, uint64_t>>* out);
  std::optional<uint64_t> IndexedAddress(const Unit& unit, uint64_t index) const;
  std::vector<std::pair<uint64_t, uint64_t>> RangesOf(const Unit& unit, const Die& die);

  const Sections& sections_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const AbbrevTable>> abbrev_cache_;
  uint64_t abbrev_budget_;
  uint64_t range_budget_;
};

template <typename Add>
void Decoder::ForRanges(const Unit& unit, const Die& die, Add add) {
  for (auto [low, high] : RangesOf(unit, die)) {
    if (low < high && (low != 0 || sections_.relocatable)) add(low, high);
  }
}

}  // namespace brink::dwarf
