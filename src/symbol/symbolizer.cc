#include "symbol/symbolizer.h"

#include <elf.h>

#include <algorithm>

#include "base/strings.h"
#include "symbol/demangle.h"
#include "symbol/jit_source.h"

namespace brink::symbol {

struct Symbolizer::Loaded {
  LocatedFile located;
  FunctionTable table;
  Unresolved reason = Unresolved::kNot;  // of addresses outside the table
  std::vector<int64_t> ids;              // FunctionId by table index, -1 not made yet
  bool dwarf_tried = false;
  std::unique_ptr<dwarf::Info> dwarf;
  uint64_t bias = 0;                     // vmlinux: link-time address of the reference symbol
  JitCodes jit;
};

Symbolizer::Symbolizer(const ObjectTable* objects, SymbolOptions options) : objects_(*objects), options_(std::move(options)) {}
Symbolizer::~Symbolizer() = default;

void Symbolizer::SetJitDump(int32_t pid, std::string path) { jitdumps_[pid] = std::move(path); }

void Symbolizer::ForgetJitCode() {
  for (ObjectId id = 0; id < loaded_.size(); ++id) {
    if (loaded_[id] && objects_[id].kind == ObjectKind::kJit) loaded_[id].reset();
  }
  jit_bytes_left_ = kMostJitBytes;
}

bool Symbolizer::IsRunningKernel(const Object& object) {
  if (object.build_id.empty()) return !options_.locate.other_host;
  auto notes = ReadFile(options_.kernel_notes, 1u << 20);
  auto id = notes.ok() ? elf::BuildIdOfNotes(*notes) : std::nullopt;
  return id && object.build_id.starts_with(*id);
}

bool Symbolizer::KallsymsApply() {
  if (options_.kallsyms_given) return true;
  for (ObjectId id = 0; id < objects_.size(); ++id) {
    if (objects_[id].kind == ObjectKind::kKernel) return IsRunningKernel(objects_[id]);
  }
  return !options_.locate.other_host;
}

const StatusOr<Kallsyms>& Symbolizer::ReadKallsyms() {
  if (!kallsyms_) {
    auto text = ReadFile(options_.kallsyms, 256u << 20);
    kallsyms_ = text.ok() ? ParseKallsyms(*text) : StatusOr<Kallsyms>(text.status());
  }
  return *kallsyms_;
}

void Symbolizer::LoadKernel(const Object& object, Loaded& loaded) {
  std::string reference = object.reference.empty() ? "_text" : object.reference;
  if (!options_.vmlinux.empty()) {
    Object image{.kind = ObjectKind::kFile, .path = options_.vmlinux, .build_id = object.build_id};
    // Named by the user: it is what it is, unless build ids say otherwise.
    const bool other_host = std::exchange(options_.locate.other_host, false);
    LoadElf(image, loaded);
    options_.locate.other_host = other_host;
    for (const FunctionEntry& entry : loaded.table.entries()) {
      if (entry.name == reference) loaded.bias = entry.start;
    }
    if (loaded.bias == 0 && loaded.located.file) {
      const elf::Section* text = loaded.located.file->FindSection(".text");
      if (text) loaded.bias = text->addr;
    }
    return;
  }
  if (!options_.kallsyms_given && !IsRunningKernel(object)) {
    loaded.reason = Unresolved::kOtherKernel;
    return;
  }
  const StatusOr<Kallsyms>& kallsyms = ReadKallsyms();
  if (!kallsyms.ok()) {
    loaded.reason = Unresolved::kKernelRestricted;
    return;
  }
  uint64_t base = kallsyms->AddressOf(reference);
  std::vector<FunctionEntry> entries;
  for (size_t i = 0; i < kallsyms->symbols.size(); ++i) {
    const KernelSymbol& symbol = kallsyms->symbols[i];
    if (!symbol.module.empty() || symbol.address < base) continue;
    size_t next = i + 1;
    while (next < kallsyms->symbols.size() && kallsyms->symbols[next].address == symbol.address) ++next;
    uint64_t end = next < kallsyms->symbols.size() ? kallsyms->symbols[next].address : symbol.address + 4096;
    entries.push_back({symbol.address - base, end - base, symbol.name, NameOrigin::kKallsyms});
  }
  loaded.table = FunctionTable::FromEntries(std::move(entries));
  loaded.reason = Unresolved::kGap;
}

void Symbolizer::LoadModule(const Object& object, Loaded& loaded) {
  LoadElf(object, loaded);
  if (!loaded.table.empty()) return;
  // "[ext4]" or ".../ext4.ko.xz": the running kernel's list knows it, relative to its first symbol.
  std::string name = object.ShortName();
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  name = name.substr(0, name.find(".ko"));
  std::replace(name.begin(), name.end(), '-', '_');
  if (!KallsymsApply()) {
    loaded.reason = Unresolved::kOtherKernel;
    return;
  }
  const StatusOr<Kallsyms>& kallsyms = ReadKallsyms();
  if (!kallsyms.ok()) {
    loaded.reason = Unresolved::kKernelRestricted;
    return;
  }
  std::vector<FunctionEntry> entries;
  for (const KernelSymbol& symbol : kallsyms->symbols) {
    if (symbol.module != name || symbol.address < object.start || symbol.address - object.start >= object.length) continue;
    if (!entries.empty()) entries.back().end = symbol.address - object.start;
    entries.push_back({symbol.address - object.start, object.length, symbol.name, NameOrigin::kKallsyms});
  }
  loaded.table = FunctionTable::FromEntries(std::move(entries));
  loaded.reason = loaded.table.empty() ? Unresolved::kNoSymbols : Unresolved::kGap;
}

void Symbolizer::LoadElf(const Object& object, Loaded& loaded) {
  loaded.located = Locate(object, options_.locate);
  loaded.reason = loaded.located.reason;
  if (!loaded.located.file) return;
  loaded.table = FunctionTable::FromElf(*loaded.located.file, loaded.located.debug.get());
  loaded.reason = loaded.table.empty() ? Unresolved::kNoSymbols : Unresolved::kGap;
}

void Symbolizer::LoadJit(const Object& object, Loaded& loaded) {
  auto dump = jitdumps_.find(object.pid);
  loaded.jit = ReadJitCodes({.pid = object.pid, .map_dir = options_.map_dir, .proc = options_.locate.proc,
                             .jitdump = dump == jitdumps_.end() ? "" : dump->second, .most_bytes = std::min(jit_bytes_left_, kMostJitBytesEach)});
  std::vector<FunctionEntry> entries;
  entries.reserve(loaded.jit.symbols.size());
  for (JitSymbol& symbol : loaded.jit.symbols) entries.push_back({symbol.start, symbol.start + symbol.size, std::move(symbol.name), NameOrigin::kJit});
  constexpr size_t kSymbolBytes = 128;
  jit_bytes_left_ -= std::min(jit_bytes_left_, loaded.jit.dump_bytes.size() + kSymbolBytes * loaded.jit.symbols.size());
  loaded.table = FunctionTable::FromEntries(std::move(entries));
  loaded.reason = loaded.table.empty() ? Unresolved::kNoJitMap : Unresolved::kGap;
}

Symbolizer::Loaded& Symbolizer::Load(ObjectId id) {
  if (loaded_.size() <= id) loaded_.resize(objects_.size());
  std::unique_ptr<Loaded>& slot = loaded_[id];
  if (slot) return *slot;
  slot = std::make_unique<Loaded>();
  const Object& object = objects_[id];
  switch (object.kind) {
    case ObjectKind::kNone: slot->reason = Unresolved::kUnmapped; break;
    case ObjectKind::kKernel: LoadKernel(object, *slot); break;
    case ObjectKind::kModule: LoadModule(object, *slot); break;
    case ObjectKind::kFile: case ObjectKind::kVdso: LoadElf(object, *slot); break;
    case ObjectKind::kJit: LoadJit(object, *slot); break;
    case ObjectKind::kBpf: slot->table = FunctionTable::FromEntries({{0, ~uint64_t{0}, object.path, NameOrigin::kBpf}}); break;
    case ObjectKind::kVsyscall: slot->table = FunctionTable::FromEntries({{0, 4096, "[vsyscall]", NameOrigin::kKallsyms}}); break;
  }
  slot->ids.assign(slot->table.entries().size(), -1);
  return *slot;
}

FunctionId Symbolizer::Unnamed(ObjectId id, Unresolved reason) {
  auto [it, fresh] = unnamed_.try_emplace({id, static_cast<uint8_t>(reason)}, static_cast<FunctionId>(functions_.size()));
  if (fresh) {
    std::string name = reason == Unresolved::kNoKernelMap ? "[kernel]" : objects_[id].ShortName();
    if (!name.starts_with('[')) name = "[" + name + "]";
    functions_.push_back({.object = id, .name = std::move(name), .reason = reason});
  }
  return it->second;
}

FunctionId Symbolizer::Intern(ObjectId id, Loaded& loaded, size_t index) {
  int64_t& slot = loaded.ids[index];
  if (slot >= 0) return static_cast<FunctionId>(slot);
  const FunctionEntry& entry = loaded.table.entries()[index];
  slot = static_cast<int64_t>(functions_.size());
  std::string name = options_.demangle ? Demangle(entry.name) : entry.name;
  // "memcpy@plt" and "~name+0x40" wrap a name that may be mangled itself.
  if (options_.demangle && entry.origin == NameOrigin::kPlt) name = Demangle(std::string_view(entry.name).substr(0, entry.name.size() - 4)) + "@plt";
  if (options_.demangle && entry.origin == NameOrigin::kNearest) {
    size_t plus = entry.name.rfind('+');
    name = "~" + Demangle(std::string_view(entry.name).substr(1, plus - 1)) + entry.name.substr(plus);
  }
  functions_.push_back({.object = id, .name = std::move(name), .mangled = entry.name, .start = entry.start, .end = entry.end, .origin = entry.origin});
  return static_cast<FunctionId>(slot);
}

FunctionId Symbolizer::FunctionAt(const Location& location) {
  if (location.object == kNoObject && location.offset >> 63) return Unnamed(kNoObject, Unresolved::kNoKernelMap);
  Loaded& loaded = Load(location.object);
  auto vaddr = VaddrOf(location);
  if (!vaddr) return Unnamed(location.object, loaded.reason == Unresolved::kNot ? Unresolved::kGap : loaded.reason);
  int64_t index = loaded.table.IndexOf(*vaddr);
  if (index < 0) return Unnamed(location.object, loaded.reason);
  return Intern(location.object, loaded, static_cast<size_t>(index));
}

std::optional<uint64_t> Symbolizer::VaddrOf(const Location& location) {
  Loaded& loaded = Load(location.object);
  switch (objects_[location.object].kind) {
    case ObjectKind::kNone: return std::nullopt;
    case ObjectKind::kFile: case ObjectKind::kVdso:
      return loaded.located.file ? loaded.located.file->OffsetToVaddr(location.offset) : std::nullopt;
    case ObjectKind::kKernel: return location.offset + loaded.bias;
    default: return location.offset;
  }
}

std::optional<Location> Symbolizer::LocationOf(ObjectId id, uint64_t vaddr) {
  Loaded& loaded = Load(id);
  ObjectKind kind = objects_[id].kind;
  if (kind == ObjectKind::kKernel) return Location{id, vaddr - loaded.bias};
  if (kind != ObjectKind::kFile && kind != ObjectKind::kVdso) return Location{id, vaddr};
  auto offset = loaded.located.file ? loaded.located.file->VaddrToOffset(vaddr) : std::nullopt;
  return offset ? std::optional(Location{id, *offset}) : std::nullopt;
}

std::vector<SourceFrame> Symbolizer::FramesAt(const Location& location) {
  Loaded& loaded = Load(location.object);
  std::vector<SourceFrame> frames;
  if (objects_[location.object].kind == ObjectKind::kJit) {
    if (auto place = loaded.jit.LineAt(location.offset)) frames.push_back({.file = place->file, .line = place->line});
    return frames;
  }
  if (!options_.lines || !loaded.located.file) return frames;
  if (!loaded.dwarf_tried) {
    loaded.dwarf_tried = true;
    auto info = dwarf::Info::Load(*loaded.located.file);
    if (!info.ok() && loaded.located.debug) info = dwarf::Info::Load(*loaded.located.debug);
    if (info.ok()) loaded.dwarf = *std::move(info);
  }
  auto vaddr = VaddrOf(location);
  if (!loaded.dwarf || !vaddr) return frames;
  for (dwarf::Frame& frame : loaded.dwarf->FramesAt(*vaddr)) {
    frames.push_back({.function = options_.demangle ? Demangle(frame.function) : std::move(frame.function), .file = std::move(frame.file),
                      .line = frame.line, .column = frame.column, .inlined = frame.inlined});
  }
  return frames;
}

std::string Symbolizer::LineAt(const Location& location) {
  auto frames = FramesAt(location);
  if (frames.empty() || frames[0].file.empty() || frames[0].line == 0) return "";
  return frames[0].file.substr(frames[0].file.rfind('/') + 1) + ":" + std::to_string(frames[0].line);
}

StatusOr<std::string> Symbolizer::CodeAt(const Location& location, uint64_t size) {
  Loaded& loaded = Load(location.object);
  const Object& object = objects_[location.object];
  if (object.kind == ObjectKind::kJit) return loaded.jit.CodeAt(location.offset, size);
  if (!loaded.located.file) {
    return NotFound(EscapeForTerminal(object.ShortName()) + ": no code: " +
                    std::string(UnresolvedName(loaded.reason == Unresolved::kNot ? Unresolved::kNoFile : loaded.reason)));
  }
  auto vaddr = VaddrOf(location);
  if (!vaddr) return NotFound(EscapeForTerminal(object.ShortName()) + ": no segment holds the address");
  return loaded.located.file->ReadVaddr(*vaddr, size);
}

uint16_t Symbolizer::MachineOf(ObjectId id) {
  Loaded& loaded = Load(id);
  return loaded.located.file ? loaded.located.file->machine() : loaded.jit.machine;
}

const LocatedFile& Symbolizer::FileOf(ObjectId id) { return Load(id).located; }

std::vector<FunctionId> Symbolizer::FindFunctions(std::string_view name, std::span<const ObjectId> objects) {
  std::vector<FunctionId> equal, containing;
  for (ObjectId id : objects) {
    Loaded& loaded = Load(id);
    for (size_t i = 0; i < loaded.table.entries().size(); ++i) {
      const FunctionEntry& entry = loaded.table.entries()[i];
      // Demangling everything is dear: a name that lacks the text's last word cannot match.
      if (entry.name == name) {
        equal.push_back(Intern(id, loaded, i));
        continue;
      }
      size_t word = name.find_last_of(": ");
      std::string_view last = name.substr(word == std::string_view::npos ? 0 : word + 1);
      last = last.substr(0, last.find_first_of("(<"));
      if (last.empty() || entry.name.find(last) == std::string::npos) continue;
      FunctionId function = Intern(id, loaded, i);
      const std::string& plain = functions_[function].name;
      if (plain == name || ShortenName(plain) == name) equal.push_back(function);
      else if (plain.find(name) != std::string::npos) containing.push_back(function);
    }
  }
  return equal.empty() ? containing : equal;
}

}  // namespace brink::symbol
