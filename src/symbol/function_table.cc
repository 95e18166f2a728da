#include "symbol/function_table.h"

#include <algorithm>
#include <elf.h>

#include <absl/strings/str_format.h>

#include "elf/eh_frame.h"
#include "elf/symbols.h"

namespace brink::symbol {
namespace {

struct Candidate {
  uint64_t start = 0, size = 0;
  std::string_view name;
  uint8_t binding = 0;
  NameOrigin origin = NameOrigin::kSymtab;
};

size_t Underscores(std::string_view name) { return std::min(name.find_first_not_of('_'), name.size()); }

// Is `a` the better name of an address than `b`? perf's order (choose_best_symbol in tools/perf/util/symbol.c), so that
// both tools show the same one.
bool Better(const Candidate& a, const Candidate& b) {
  if ((a.size > 0) != (b.size > 0)) return a.size > 0;
  if ((a.binding == STB_WEAK) != (b.binding == STB_WEAK)) return b.binding == STB_WEAK;
  if ((a.binding == STB_GLOBAL) != (b.binding == STB_GLOBAL)) return a.binding == STB_GLOBAL;
  if (Underscores(a.name) != Underscores(b.name)) return Underscores(a.name) < Underscores(b.name);
  return a.name.size() > b.name.size();
}

bool InExecutableSection(const elf::File& file, const elf::Symbol& symbol) {
  if (symbol.section >= file.sections().size()) return false;
  return file.sections()[symbol.section].flags & SHF_EXECINSTR;
}

void Collect(const elf::File& file, const elf::SymbolTable& table, NameOrigin origin, std::vector<Candidate>* out) {
  for (const elf::Symbol& symbol : table.symbols) {
    if (!symbol.defined()) continue;
    bool label = symbol.type == STT_NOTYPE && InExecutableSection(file, symbol);
    if (!symbol.function() && !label) continue;
    std::string_view name = table.NameOf(symbol);
    // $x, $d (Arm mapping symbols) and .L labels mark places, not functions.
    if (name.empty() || (label && (name[0] == '$' || name.starts_with(".L")))) continue;
    uint64_t start = symbol.value;
    if (file.type() == ET_REL && symbol.section < file.sections().size()) start += file.sections()[symbol.section].addr;
    if (file.machine() == EM_ARM) start &= ~uint64_t{1};
    out->push_back({start, symbol.size, name, symbol.binding, origin});
  }
}

// What bounds a symbol without a size: the end of its section.
uint64_t SectionEnd(const elf::File& file, uint64_t address) {
  for (const elf::Section& section : file.sections()) {
    if ((section.flags & SHF_EXECINSTR) && address >= section.addr && address - section.addr < section.size) return section.addr + section.size;
  }
  return address + 1;
}

std::vector<FunctionEntry> Choose(const elf::File& file, std::vector<Candidate> candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.start != b.start ? a.start < b.start : Better(a, b); });
  std::vector<FunctionEntry> entries;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    if (i > 0 && candidates[i - 1].start == candidate.start) continue;
    uint64_t end = candidate.start + candidate.size;
    // Local labels inside a sized function are its parts, not functions.
    if (candidate.size == 0 && !entries.empty() && candidate.start < entries.back().end) continue;
    if (candidate.size == 0) {
      size_t next = i + 1;
      while (next < candidates.size() && candidates[next].start == candidate.start) ++next;
      end = SectionEnd(file, candidate.start);
      if (next < candidates.size()) end = std::min(end, candidates[next].start);
    }
    if (end <= candidate.start) continue;
    entries.push_back({candidate.start, end, std::string(candidate.name), candidate.origin});
  }
  return entries;
}

// Functions that only .eh_frame knows, named after the exported function before them.
void AddFrames(const elf::File& file, std::vector<FunctionEntry>* entries) {
  auto frames = elf::ReadFdeExtents(file);
  if (!frames.ok()) return;
  std::vector<FunctionEntry> added;
  size_t known = 0;
  for (const elf::FdeExtent& extent : frames->extents) {
    while (known < entries->size() && (*entries)[known].end <= extent.start) ++known;
    bool covered = known < entries->size() && (*entries)[known].start < extent.start + extent.size;
    if (covered || (!added.empty() && added.back().start == extent.start)) continue;
    FunctionEntry entry{extent.start, extent.start + extent.size, "", NameOrigin::kFrame};
    size_t before = known;
    while (before > 0 && (*entries)[before - 1].origin == NameOrigin::kPlt) --before;
    if (before > 0 && (*entries)[before - 1].end <= extent.start) {
      const FunctionEntry& nearest = (*entries)[before - 1];
      entry.origin = NameOrigin::kNearest;
      entry.name = absl::StrFormat("~%s+%#x", nearest.name, extent.start - nearest.start);
    } else {
      entry.name = absl::StrFormat("fn_%x", extent.start);
    }
    added.push_back(std::move(entry));
  }
  entries->insert(entries->end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

}  // namespace

std::string_view NameOriginName(NameOrigin origin) {
  constexpr std::string_view kNames[] = {"symtab", "dynsym", "plt", "nearest", "frame", "kallsyms", "bpf", "jit", "none"};
  return kNames[static_cast<size_t>(origin)];
}

std::string_view UnresolvedName(Unresolved reason) {
  constexpr std::string_view kNames[] = {"",          "unmapped", "no mappings of the process", "file not found", "file unreadable",
                                         "build id differs", "no symbols", "between functions", "kallsyms hides addresses",
                                         "other kernel", "no perf map or jitdump", "no kernel mapping recorded",
                                         "other host and no build id"};
  return kNames[static_cast<size_t>(reason)];
}

FunctionTable FunctionTable::FromElf(const elf::File& file, const elf::File* debug) {
  std::vector<elf::SymbolTable> tables;
  std::vector<Candidate> candidates;
  tables.reserve(3);
  auto add = [&](const elf::File& from, elf::SymbolSource source, NameOrigin origin) {
    auto table = elf::ReadSymbols(from, source);
    if (!table.ok()) return false;
    tables.push_back(*std::move(table));
    size_t before = candidates.size();
    Collect(from, tables.back(), origin, &candidates);
    return candidates.size() > before;
  };
  bool full = add(file, elf::SymbolSource::kSymtab, NameOrigin::kSymtab);
  if (!full && debug) full = add(*debug, elf::SymbolSource::kSymtab, NameOrigin::kSymtab);
  if (!full) add(file, elf::SymbolSource::kDynsym, NameOrigin::kDynsym);
  std::vector<FunctionEntry> entries = Choose(file, std::move(candidates));
  for (elf::PltEntry& plt : elf::ReadPlt(file)) entries.push_back({plt.vaddr, plt.vaddr + plt.size, std::move(plt.name), NameOrigin::kPlt});
  auto by_start = [](const FunctionEntry& a, const FunctionEntry& b) { return a.start < b.start; };
  std::stable_sort(entries.begin(), entries.end(), by_start);
  AddFrames(file, &entries);
  return FromEntries(std::move(entries));
}

FunctionTable FunctionTable::FromEntries(std::vector<FunctionEntry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const FunctionEntry& a, const FunctionEntry& b) { return a.start < b.start; });
  FunctionTable table;
  for (FunctionEntry& entry : entries) {
    if (entry.end <= entry.start) continue;
    if (!table.entries_.empty()) {
      FunctionEntry& last = table.entries_.back();
      if (last.start == entry.start) continue;
      last.end = std::min(last.end, entry.start);
    }
    table.entries_.push_back(std::move(entry));
  }
  return table;
}

int64_t FunctionTable::IndexOf(uint64_t address) const {
  auto above = std::upper_bound(entries_.begin(), entries_.end(), address, [](uint64_t value, const FunctionEntry& e) { return value < e.start; });
  if (above == entries_.begin() || address >= std::prev(above)->end) return -1;
  return std::prev(above) - entries_.begin();
}

const FunctionEntry* FunctionTable::Find(uint64_t address) const {
  int64_t index = IndexOf(address);
  return index < 0 ? nullptr : &entries_[static_cast<size_t>(index)];
}

}  // namespace brink::symbol
