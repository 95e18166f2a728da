#include "dwarf/info.h"

#include <elf.h>

#include "dwarf/unit.h"
#include "elf/relocate.h"

namespace brink::dwarf {

using elf::Cursor;

struct Info::Impl {
  Sections sections;
  std::optional<Decoder> decoder;
  std::vector<Unit> units;
  Intervals unit_ranges;
  absl::flat_hash_map<uint64_t, std::unique_ptr<LineTable>> lines;  // by offset; nullptr: damaged
  uint64_t row_budget = 0;

  void IndexUnits();
  void ReadRoot(Unit& unit, uint32_t index);
  void ReadScopes(Unit& unit);
  void AddScope(Unit& unit, const Die& die, uint32_t depth, int32_t parent);
  Unit* UnitOf(uint64_t address);
  Unit* UnitAtOffset(uint64_t offset);
  const LineTable* LinesOf(const Unit& unit);
  std::string NameOf(uint64_t die_offset);
};

Info::Info() : impl_(std::make_unique<Impl>()) {}
Info::~Info() = default;

StatusOr<std::unique_ptr<Info>> Info::Load(const elf::File& file) {
  std::unique_ptr<Info> info(new Info());
  Impl& impl = *info->impl_;
  struct Wanted {
    const char* name;
    std::string Sections::*field;
  };
  constexpr Wanted kWanted[] = {{"info", &Sections::info}, {"abbrev", &Sections::abbrev}, {"str", &Sections::str},
                                {"line", &Sections::line}, {"line_str", &Sections::line_str},
                                {"str_offsets", &Sections::str_offsets}, {"addr", &Sections::addr},
                                {"ranges", &Sections::ranges}, {"rnglists", &Sections::rnglists}};
  for (const Wanted& wanted : kWanted) {
    auto bytes = elf::ReadRelocated(file, std::string(".debug_") + wanted.name);
    if (!bytes.ok()) bytes = file.ReadSection(std::string(".zdebug_") + wanted.name);
    if (bytes.ok()) impl.sections.*wanted.field = *std::move(bytes);
  }
  if (impl.sections.info.empty() || impl.sections.abbrev.empty()) return NotFound(file.name() + ": no .debug_info");
  impl.sections.little_endian = file.little_endian();
  impl.sections.relocatable = file.type() == ET_REL;
  impl.row_budget = impl.sections.line.size() * 2 + 1024;
  impl.decoder.emplace(impl.sections);
  impl.IndexUnits();
  return info;
}

void Info::Impl::IndexUnits() {
  units = decoder->ReadUnits();
  for (uint32_t i = 0; i < units.size(); ++i) ReadRoot(units[i], i);
  unit_ranges.Finish();
}

void Info::Impl::ReadRoot(Unit& unit, uint32_t index) {
  if (!decoder->LoadAbbrevs(unit)) return;
  Cursor in(std::string_view(sections.info).substr(0, unit.end), sections.little_endian, unit.die_at);
  auto die = decoder->ReadDie(unit, in);
  if (!die) return;
  // Bases come first: names and addresses of the same entry are looked up through them.
  unit.str_offsets_base = die->str_offsets_base.kind == AttrClass::kNone ? (unit.is64 ? 16 : 8) : die->str_offsets_base.number;
  unit.addr_base = die->addr_base.kind == AttrClass::kNone ? (unit.is64 ? 16 : 8) : die->addr_base.number;
  unit.rnglists_base = die->rnglists_base.kind == AttrClass::kNone ? (unit.is64 ? 20 : 12) : die->rnglists_base.number;
  unit.comp_dir = decoder->TextOf(unit, die->comp_dir);
  if (die->stmt_list.kind == AttrClass::kOffset || die->stmt_list.kind == AttrClass::kConstant) unit.stmt_list = die->stmt_list.number;
  unit.low_pc = decoder->AddressOf(unit, die->low_pc).value_or(0);
  if (die->tag != kTagCompileUnit) return;
  bool any = false;
  decoder->ForRanges(unit, *die, [&](uint64_t low, uint64_t high) {
    unit_ranges.Add(low, high, index);
    any = true;
  });
  // DWARF 2 has no range lists: a unit in two pieces of text says nothing itself, its functions do.
  unit.rangeless = !any;
  if (unit.rangeless) ReadScopes(unit);
}

void Info::Impl::ReadScopes(Unit& unit) {
  unit.scopes_read = true;
  Cursor in(std::string_view(sections.info).substr(0, unit.end), sections.little_endian, unit.die_at);
  std::vector<int32_t> enclosing = {-1};  // per open level: the function scope around it
  while (!in.done()) {
    auto die = decoder->ReadDie(unit, in);
    if (!in.ok()) break;
    if (!die) {
      if (enclosing.size() > 1) enclosing.pop_back();
      if (enclosing.size() == 1) break;
      continue;
    }
    int32_t parent = enclosing.back();
    if (die->tag == kTagSubprogram || die->tag == kTagInlinedSubroutine) {
      size_t before = unit.scopes.size();
      AddScope(unit, *die, static_cast<uint32_t>(enclosing.size()), die->tag == kTagSubprogram ? -1 : parent);
      if (unit.scopes.size() > before) parent = static_cast<int32_t>(before);
    }
    if (!die->children) {
      if (enclosing.size() == 1) break;
      continue;
    }
    bool may_hold_code = die->tag == kTagSubprogram || die->tag == kTagInlinedSubroutine || die->tag == kTagLexicalBlock ||
                         die->tag == kTagCompileUnit || die->tag == kTagNamespace || die->tag == kTagModule || die->tag == kTagClass ||
                         die->tag == kTagStructure || die->tag == kTagUnion || die->tag == kTagTry || die->tag == kTagCatch;
    uint64_t next = unit.offset + die->sibling.number;
    if (!may_hold_code && die->sibling.kind == AttrClass::kUnitRef && next > in.at() && next <= unit.end) {
      in.Seek(next);
    } else {
      if (enclosing.size() > kMaxDepth) break;
      enclosing.push_back(parent);
    }
  }
  unit.scope_ranges.Finish();
}

void Info::Impl::AddScope(Unit& unit, const Die& die, uint32_t depth, int32_t parent) {
  uint32_t index = static_cast<uint32_t>(unit.scopes.size());
  bool any = false;
  decoder->ForRanges(unit, die, [&](uint64_t low, uint64_t high) {
    unit.scope_ranges.Add(low, high, index);
    if (unit.rangeless && die.tag == kTagSubprogram) unit_ranges.Add(low, high, static_cast<uint32_t>(&unit - units.data()));
    any = true;
  });
  // An inlined body in several pieces has no ranges in DWARF 2, but what was inlined into it has.
  if (!any && (die.tag != kTagInlinedSubroutine || parent < 0)) return;
  unit.scopes.push_back({.parent = parent, .depth = depth, .inlined = die.tag == kTagInlinedSubroutine, .origin = die.offset,
                         .call_file = static_cast<uint32_t>(die.call_file.number), .call_line = static_cast<uint32_t>(die.call_line.number),
                         .call_column = static_cast<uint32_t>(die.call_column.number)});
}

Unit* Info::Impl::UnitOf(uint64_t address) {
  // Of several units that claim an address the tightest range is the one that means it.
  Unit* best = nullptr;
  uint64_t best_size = ~uint64_t{0};
  unit_ranges.ForEach(address, [&](uint32_t index, uint64_t low, uint64_t high) {
    if (high - low < best_size) {
      best_size = high - low;
      best = &units[index];
    }
  });
  return best;
}

Unit* Info::Impl::UnitAtOffset(uint64_t offset) {
  auto above = std::upper_bound(units.begin(), units.end(), offset, [](uint64_t value, const Unit& unit) { return value < unit.offset; });
  if (above == units.begin()) return nullptr;
  Unit& unit = *std::prev(above);
  return offset >= unit.die_at && offset < unit.end && unit.abbrevs ? &unit : nullptr;
}

const LineTable* Info::Impl::LinesOf(const Unit& unit) {
  if (!unit.stmt_list) return nullptr;
  auto [it, fresh] = lines.try_emplace(*unit.stmt_list);
  if (fresh && row_budget > 0) {
    auto table = ReadLineTable({sections.line, sections.line_str, sections.str, sections.little_endian, sections.relocatable}, *unit.stmt_list, unit.comp_dir,
                               unit.address_size);
    if (table.ok()) {
      row_budget -= std::min<uint64_t>(row_budget, table->rows.size() + table->files.size() + 1);
      it->second = std::make_unique<LineTable>(*std::move(table));
    }
  }
  return it->second.get();
}

std::string Info::Impl::NameOf(uint64_t die_offset) {
  std::string_view plain;
  for (int hop = 0; hop < kMaxChain; ++hop) {
    Unit* unit = UnitAtOffset(die_offset);
    if (!unit) break;
    Cursor in(std::string_view(sections.info).substr(0, unit->end), sections.little_endian, die_offset);
    auto die = decoder->ReadDie(*unit, in);
    if (!die) break;
    std::string_view linkage = decoder->TextOf(*unit, die->linkage_name);
    if (!linkage.empty()) return std::string(linkage.substr(0, 65536));
    if (plain.empty()) plain = decoder->TextOf(*unit, die->name);
    const Attr& next = die->origin.kind != AttrClass::kNone ? die->origin : die->specification;
    if (next.kind == AttrClass::kUnitRef) die_offset = unit->offset + next.number;
    else if (next.kind == AttrClass::kInfoRef) die_offset = next.number;
    else break;
  }
  return std::string(plain.substr(0, 65536));
}

std::vector<Frame> Info::FramesAt(uint64_t address) {
  std::vector<Frame> frames;
  Unit* unit = impl_->UnitOf(address);
  if (!unit) return frames;
  if (!unit->scopes_read) impl_->ReadScopes(*unit);
  const LineTable* lines = impl_->LinesOf(*unit);
  int32_t scope = -1;
  uint64_t scope_size = 0;
  unit->scope_ranges.ForEach(address, [&](uint32_t index, uint64_t low, uint64_t high) {
    const Scope& candidate = unit->scopes[index];
    bool deeper = scope < 0 || candidate.depth > unit->scopes[static_cast<size_t>(scope)].depth ||
                  (candidate.depth == unit->scopes[static_cast<size_t>(scope)].depth && high - low < scope_size);
    if (!deeper) return;
    scope = static_cast<int32_t>(index);
    scope_size = high - low;
  });
  Frame frame;
  if (const LineRow* row = lines ? lines->Find(address) : nullptr) {
    frame.file = lines->FileName(row->file);
    frame.line = row->line;
    frame.column = row->column;
  }
  for (int hops = 0; scope >= 0 && hops < kMaxDepth; ++hops) {
    const Scope& current = unit->scopes[static_cast<size_t>(scope)];
    frame.function = impl_->NameOf(current.origin);
    frame.inlined = current.inlined && current.parent >= 0;
    frames.push_back(std::move(frame));
    if (!frames.back().inlined) return frames;
    frame = Frame{};
    if (lines) frame.file = lines->FileName(current.call_file);
    frame.line = current.call_line;
    frame.column = current.call_column;
    scope = current.parent;
  }
  if (frames.empty() && (frame.line != 0 || !frame.file.empty())) frames.push_back(std::move(frame));
  return frames;
}

std::optional<Frame> Info::LineAt(uint64_t address) {
  Unit* unit = impl_->UnitOf(address);
  const LineTable* lines = unit ? impl_->LinesOf(*unit) : nullptr;
  const LineRow* row = lines ? lines->Find(address) : nullptr;
  if (!row) return std::nullopt;
  Frame frame;
  frame.file = lines->FileName(row->file);
  frame.line = row->line;
  frame.column = row->column;
  return frame;
}

}  // namespace brink::dwarf
