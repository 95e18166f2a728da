#include "cfi/process_map.h"

#include <elf.h>

#include <absl/strings/str_format.h>


namespace brink::cfi {

using symbol::ObjectKind;

ProcessMap::ProcessMap(const ProcessMapOptions& options) : options_(options), spaces_(&objects_) {}

void ProcessMap::Enter(int32_t pid, std::optional<bool> jit, bool lost) {
  // Between windows: places point into the facts.
  if (files_.size() >= options_.max_files) files_.clear();
  pid_ = pid;
  jit_ = jit;
  lost_ = lost;
  made_code_ = false;
}

ProcessMap::Entry& ProcessMap::FileOf(symbol::ObjectId id) {
  auto it = files_.find(id);
  if (it == files_.end()) {
    it = files_.emplace(id, Load(objects_[id], false)).first;
  }
  return it->second;
}

ProcessMap::Entry ProcessMap::Load(const symbol::Object& object, bool vdso) {
  Entry entry;
  entry.loader = object.ShortName().starts_with("ld-linux") || object.ShortName().starts_with("ld-2.") || object.ShortName().starts_with("ld-musl");
  symbol::LocatedFile file = symbol::Locate(object, options_.locate);
  // On x86-64 nothing is asked of the kernel's code. On arm64 handlers return into it: to __kernel_rt_sigreturn.
  if (file.file && (!vdso || file.file->machine() == EM_AARCH64)) {
    if (auto facts = Facts::Load(*file.file, options_.facts); facts.ok()) {
      entry.facts = std::make_unique<Facts>(std::move(*facts));
      loaded_ += !vdso;
      return entry;
    }
  }
  if (!vdso) missing_.try_emplace(object.path, 0);
  return entry;
}

Place ProcessMap::InVdso(const symbol::Mapping& mapping, uint64_t address) {
  auto it = files_.find(mapping.object);
  if (it == files_.end()) it = files_.emplace(mapping.object, Load(objects_[mapping.object], true)).first;
  Facts* facts = it->second.facts.get();
  auto inside = facts ? facts->AddressOfOffset(mapping.page_offset + (address - mapping.start)) : std::nullopt;
  if (!inside) return {.memory = MemoryKind::kVdso};
  return {.memory = MemoryKind::kVdso, .facts = facts, .address = *inside, .module = mapping.object};
}

Place ProcessMap::At(uint64_t address) {
  if (symbol::AddressSpaces::IsVsyscall(address)) return {.memory = MemoryKind::kVdso};
  const symbol::Mapping* mapping = spaces_.Find(pid_, address);
  if (!mapping || !mapping->executable) {
    // With losses a mapping may be one that nobody told of.
    const bool sure = spaces_.KnowsProcess(pid_) && !lost_;
    // The kernel said so at the time.
    if (made_code_ && address - made_start_ < made_size_) return {.memory = Anonymous()};
    return {.memory = sure ? MemoryKind::kNotCode : MemoryKind::kUnknown};
  }
  const symbol::Object& object = objects_[mapping->object];
  if (object.path == "[uprobes]") return {.memory = MemoryKind::kUprobes};
  if (object.kind == ObjectKind::kVdso) return InVdso(*mapping, address);
  if (object.kind != ObjectKind::kFile) {
    return {.memory = object.kind == ObjectKind::kNone ? MemoryKind::kUnknown : spaces_.JitDumpOf(pid_).empty() ? Anonymous() : MemoryKind::kJit};
  }
  Entry& entry = FileOf(mapping->object);
  if (!entry.facts) {
    ++missing_[object.path];
    return {.memory = MemoryKind::kFile, .module = mapping->object};
  }
  auto inside = entry.facts->AddressOfOffset(mapping->page_offset + (address - mapping->start));
  if (!inside) return {.memory = MemoryKind::kFile, .module = mapping->object};
  return {.memory = MemoryKind::kFile, .facts = entry.facts.get(), .address = *inside, .module = mapping->object, .loader = entry.loader};
}

EventSide ProcessMap::Describe(uint64_t address) {
  EventSide side{.address = address};
  const symbol::Mapping* mapping = spaces_.Find(pid_, address);
  if (mapping) {
    side.module = objects_[mapping->object].path;
    side.build_id = objects_[mapping->object].build_id;
  }
  const Place place = At(address);
  if (!place.facts) return side;
  side.offset = place.address;
  if (const Function* function = place.facts->Find(place.address)) {
    const std::string_view name = place.facts->NameOf(*function);
    if (!name.empty()) side.symbol = absl::StrFormat("%s+%#x", std::string(name), place.address - function->start);
  } else if (const PltSlot* slot = place.facts->FindPlt(place.address)) {
    side.symbol = (slot->name.empty() ? "ifunc" : slot->name) + "@plt";
  }
  auto code = place.facts->Code(place.address, 8);
  side.bytes.assign(reinterpret_cast<const char*>(code.data()), code.size());
  return side;
}

}  // namespace brink::cfi
