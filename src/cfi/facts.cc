#include "cfi/facts.h"

#include <algorithm>
#include <cstring>

#include "cfi/a64_facts.h"
#include "elf/cursor.h"
#include "elf/eh_frame.h"
#include "elf/symbols.h"

namespace brink::cfi {
namespace {

using decode::Flow;

constexpr uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
constexpr size_t kLongestCall = 9, kShortestCall = 2;
constexpr uint16_t kMachineA64 = 183;  // EM_AARCH64
// mov $15,%rax; syscall
constexpr uint8_t kRestorerX86[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
constexpr uint8_t kSyscallX86[] = {0x0f, 0x05}, kSvcA64[] = {0x01, 0x00, 0x00, 0xd4};
constexpr size_t kMaxTaken = 4'000'000;

bool Contains(const std::vector<uint64_t>& sorted, uint64_t value) { return std::binary_search(sorted.begin(), sorted.end(), value); }

void SortUnique(std::vector<uint64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

std::span<const uint8_t> SystemCallCode(decode::Machine machine) {
  return machine == decode::Machine::kA64 ? std::span<const uint8_t>(kSvcA64) : std::span<const uint8_t>(kSyscallX86);
}

std::string_view RuntimeName(Runtime runtime) {
  constexpr std::string_view kNames[] = {"native", "go", "rust", "ocaml", "jvm", "node"};
  return kNames[static_cast<size_t>(runtime)];
}

StatusOr<Facts> Facts::Load(const elf::File& file, const FactLimits& limits) {
  Facts facts;
  facts.limits_ = limits;
  facts.build_id_ = file.BuildId().value_or("");
  facts.start_ = file.entry();
  if (file.machine() == kMachineA64) facts.machine_ = decode::Machine::kA64;
  uint64_t total = 0;
  for (const elf::Segment& segment : file.segments()) {
    if (!segment.load() || !segment.executable() || segment.file_size == 0) continue;
    total += segment.file_size;
    if (total > limits.max_text_bytes) {
      facts.truncated_ = true;
      break;
    }
    ASSIGN_OR_RETURN(std::string bytes, file.ReadRange(segment.offset, segment.file_size));
    facts.text_.push_back({segment.vaddr, segment.offset, std::move(bytes)});
  }
  if (facts.text_.empty()) return InvalidArgument(file.name() + ": no executable part that can be read");
  facts.ReadFunctions(file, limits);
  for (const elf::PltEntry& entry : elf::ReadPlt(file)) {
    std::string name = entry.name;
    if (size_t at = name.find("@plt"); at != std::string::npos) name.resize(at);
    if (name.starts_with("*ABS*")) name.clear();
    facts.plt_.push_back({entry.vaddr, entry.vaddr + entry.size, std::move(name)});
  }
  std::sort(facts.plt_.begin(), facts.plt_.end(), [](const PltSlot& a, const PltSlot& b) { return a.start < b.start; });
  facts.ReadTaken(file);
  facts.ReadProperty(file);
  facts.ReadRuntime(file);
  return facts;
}

void Facts::ReadFunctions(const elf::File& file, const FactLimits& limits) {
  names_.emplace_back();
  std::vector<Function> all;
  auto room = [&] {
    truncated_ |= all.size() >= limits.max_functions;
    return all.size() < limits.max_functions;
  };
  for (elf::SymbolSource source : {elf::SymbolSource::kSymtab, elf::SymbolSource::kDynsym}) {
    auto table = elf::ReadSymbols(file, source);
    if (!table.ok()) continue;
    has_dynamic_ |= source == elf::SymbolSource::kDynsym && !table->symbols.empty();
    for (const elf::Symbol& symbol : table->symbols) {
      if (!symbol.function() || !symbol.defined() || !InText(symbol.value) || !room()) continue;
      names_.emplace_back(table->NameOf(symbol));
      const uint64_t end = symbol.value + symbol.size;
      all.push_back({symbol.value, end < symbol.value ? symbol.value : end, static_cast<uint32_t>(names_.size() - 1), false});
      // Exported: any other file may hold its address.
      if (source == elf::SymbolSource::kDynsym) {
        if (taken_.size() < kMaxTaken) taken_.push_back(symbol.value);
        dynamic_.push_back({static_cast<uint32_t>(names_.size() - 1), symbol.type == 10, symbol.value});
      }
    }
  }
  std::sort(dynamic_.begin(), dynamic_.end(), [&](const Dynamic& a, const Dynamic& b) { return names_[a.name] < names_[b.name]; });
  if (auto frames = elf::ReadFdeExtents(file); frames.ok()) {
    has_unwind_ = !frames->extents.empty();
    for (const elf::FdeExtent& extent : frames->extents) {
      // A signal's return begins one byte behind its entry: unwinders look up the address before a return.
      const uint64_t start = extent.start + extent.signal_frame;
      if (InText(start) && room()) all.push_back({start, extent.start + extent.size, 0, true});
    }
    pads_ = elf::ReadLandingPads(file, *frames);
  }
  // Of equal starts one remains, with the largest extent, a name and what is known of unwinding.
  std::sort(all.begin(), all.end(), [](const Function& a, const Function& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
  for (const Function& f : all) {
    if (!functions_.empty() && functions_.back().start == f.start) {
      Function& kept = functions_.back();
      if (!kept.name) kept.name = f.name;
      kept.unwind |= f.unwind;
    } else {
      functions_.push_back(f);
    }
  }
  uint64_t furthest = 0;
  for (const Function& f : functions_) furthest_.push_back(furthest = std::max(furthest, f.end));
}

void Facts::ReadTaken(const elf::File& file) {
  auto take = [&](uint64_t value) {
    if (taken_.size() < kMaxTaken && IsEntry(value) == Known::kYes) taken_.push_back(value);
  };
  take(file.entry());
  for (const elf::Section& section : file.sections()) {
    if (!section.has_bytes() || !(section.flags & 2)) continue;  // SHF_ALLOC
    if (section.type == 4) {  // RELA: addends
      auto bytes = file.ReadSection(section);
      if (!bytes.ok()) continue;
      elf::Cursor in(*bytes, file.little_endian());
      while (in.left() >= 24) {
        in.Skip(16);
        take(in.U64());
      }
    } else if (!(section.flags & 4)) {  // data: words that are addresses of functions
      auto bytes = file.ReadSection(section);
      if (!bytes.ok()) continue;
      for (size_t at = (8 - section.addr % 8) % 8; at + 8 <= bytes->size(); at += 8) {
        uint64_t value;
        std::memcpy(&value, bytes->data() + at, 8);
        take(value);
      }
    }
  }
  for (const Text& text : text_) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.bytes.data());
    if (machine_ == decode::Machine::kA64) {
      FormedAddressesA64({bytes, text.bytes.size()}, text.vaddr, take);
      continue;
    }
    for (size_t i = 0; i + 5 <= text.bytes.size(); ++i) {
      int32_t word;
      // lea disp32(%rip), reg
      if (i + 7 <= text.bytes.size() && (bytes[i] & 0xf8) == 0x48 && bytes[i + 1] == 0x8d && (bytes[i + 2] & 0xc7) == 0x05) {
        std::memcpy(&word, bytes + i + 3, 4);
        take(text.vaddr + i + 7 + static_cast<uint64_t>(int64_t{word}));
      }
      // mov $imm32, reg; mov $imm32, mem; push $imm32: programs at fixed addresses
      if (!file.position_independent() && ((bytes[i] & 0xf8) == 0xb8 || bytes[i] == 0x68)) {
        std::memcpy(&word, bytes + i + 1, 4);
        take(static_cast<uint32_t>(word));
      }
      if (!file.position_independent() && bytes[i] == 0xc7) {
        for (size_t skip = 2; skip <= 7 && i + skip + 4 <= text.bytes.size(); ++skip) {
          std::memcpy(&word, bytes + i + skip, 4);
          take(static_cast<uint32_t>(word));
        }
      }
    }
  }
  SortUnique(taken_);
}

void Facts::ReadProperty(const elf::File& file) {
  auto bytes = file.ReadSection(".note.gnu.property");
  if (!bytes.ok()) return;
  elf::Cursor in(*bytes, file.little_endian());
  // Bit 0 of either asks for landing pads; bit 1 is the shadow stack of one machine, signed returns of the other.
  const uint32_t features = machine_ == decode::Machine::kA64 ? 0xc0000000 : 0xc0000002;
  while (in.left() >= 12) {
    const uint32_t name_size = in.U32(), size = in.U32(), type = in.U32();
    std::string_view name = in.Bytes((uint64_t{name_size} + 3) & ~uint64_t{3});
    std::string_view description = in.Bytes((uint64_t{size} + 7) & ~uint64_t{7});
    if (!in.ok() || type != 5 || !name.starts_with("GNU")) continue;
    elf::Cursor properties(description, file.little_endian());
    while (properties.left() >= 8) {
      const uint32_t what = properties.U32(), length = properties.U32();
      if (what == features && length == 4) features_ = properties.U32(), properties.Skip(std::min<size_t>(4, properties.left()));
      else properties.Skip((uint64_t{length} + 7) & ~uint64_t{7});
    }
  }
}

void Facts::ReadRuntime(const elf::File& file) {
  if (file.FindSection(".go.buildinfo") || file.FindSection(".note.go.buildid") || file.FindSection(".gopclntab")) {
    runtime_ = Runtime::kGo;
    return;
  }
  for (const std::string& name : names_) {
    if (name == "caml_main" || name == "caml_startup") runtime_ = Runtime::kOcaml;
    else if (name == "JNI_CreateJavaVM") runtime_ = Runtime::kJvm;
    else if (name.starts_with("_ZN4node5Start")) runtime_ = Runtime::kNode;
    else if (name == "rust_eh_personality" || name == "rust_begin_unwind") runtime_ = Runtime::kRust;
    else continue;
    return;
  }
}

const Function* Facts::Find(uint64_t address) const {
  auto it = std::upper_bound(functions_.begin(), functions_.end(), address, [](uint64_t a, const Function& f) { return a < f.start; });
  while (it != functions_.begin()) {
    --it;
    if (it->start == address || address < it->end) return &*it;
    if (furthest_[static_cast<size_t>(it - functions_.begin())] <= address) return nullptr;
  }
  return nullptr;
}

const PltSlot* Facts::FindPlt(uint64_t address) const {
  auto it = std::upper_bound(plt_.begin(), plt_.end(), address, [](uint64_t a, const PltSlot& s) { return a < s.start; });
  return it != plt_.begin() && address < std::prev(it)->end ? &*std::prev(it) : nullptr;
}

bool Facts::IsPltHead(uint64_t address) const {
  const auto code = Code(address, 8);
  return machine_ == decode::Machine::kA64 && code.size() == 8 && BeginsPltA64(code) && FindPlt(address + kPltHeadA64);
}

std::string_view Facts::NameOf(const Function& function) const { return names_[function.name]; }

std::optional<uint64_t> Facts::AddressOfOffset(uint64_t offset) const {
  for (const Text& text : text_) {
    if (offset >= text.offset && offset - text.offset < text.bytes.size()) return text.vaddr + (offset - text.offset);
  }
  return std::nullopt;
}

std::span<const uint8_t> Facts::Code(uint64_t address, size_t size) const {
  for (const Text& text : text_) {
    if (address < text.vaddr || address - text.vaddr >= text.bytes.size()) continue;
    const size_t at = address - text.vaddr;
    return {reinterpret_cast<const uint8_t*>(text.bytes.data()) + at, std::min(size, text.bytes.size() - at)};
  }
  return {};
}

Known Facts::IsEntry(uint64_t address) const {
  auto it = std::lower_bound(functions_.begin(), functions_.end(), address, [](const Function& f, uint64_t a) { return f.start < a; });
  if (it != functions_.end() && it->start == address) return Known::kYes;
  if (FindPlt(address)) return FindPlt(address)->start == address ? Known::kYes : Known::kNo;
  // Between functions that are known there may be others that are not.
  return Find(address) ? Known::kNo : Known::kUnknown;
}

Known Facts::IsPad(uint64_t address) const { return has_unwind_ ? Contains(pads_, address) ? Known::kYes : Known::kNo : Known::kUnknown; }

Known Facts::IsTaken(uint64_t address) const {
  if (taken_.size() >= kMaxTaken) return Known::kUnknown;
  return Contains(taken_, address) ? Known::kYes : Known::kNo;
}

Known Facts::HasEndbr(uint64_t address) const {
  if (machine_ == decode::Machine::kA64) {
    auto word = Code(address, 4);
    uint32_t value = 0;
    if (word.size() < sizeof value) return Known::kUnknown;
    std::memcpy(&value, word.data(), sizeof value);
    return IsCallPadA64(value) ? Known::kYes : Known::kNo;
  }
  auto code = Code(address, sizeof kEndbr64);
  if (code.size() < sizeof kEndbr64) return Known::kUnknown;
  return std::memcmp(code.data(), kEndbr64, sizeof kEndbr64) == 0 ? Known::kYes : Known::kNo;
}

std::optional<decode::Insn> Facts::InsnAt(uint64_t address) const {
  auto code = Code(address, decode::kMaxInsnBytes);
  return code.empty() ? std::nullopt : decode::Decode(machine_, code, address);
}

bool Facts::IsRestorer(uint64_t address) const {
  const std::span<const uint8_t> wanted = machine_ == decode::Machine::kA64 ? SignalRestorerA64() : std::span<const uint8_t>(kRestorerX86);
  return std::ranges::equal(Code(address, wanted.size()), wanted);
}

std::optional<decode::Insn> Facts::CallBefore(uint64_t address) const {
  const bool fixed = machine_ == decode::Machine::kA64;
  const size_t longest = fixed ? 4 : kLongestCall, shortest = fixed ? 4 : kShortestCall;
  for (size_t length = longest; length >= shortest; --length) {
    if (address < length) continue;
    auto code = Code(address - length, length);
    if (code.size() < length) continue;
    auto insn = decode::Decode(machine_, code, address - length);
    if (insn && insn->length == length && (insn->flow == Flow::kCall || insn->flow == Flow::kIndCall)) return insn;
  }
  return std::nullopt;
}

const Facts::Layout& Facts::LayoutOf(const Function& function) {
  auto it = layouts_.find(function.start);
  if (it != layouts_.end()) return it->second;
  Layout layout;
  const uint64_t size = function.end - function.start;
  auto code = Code(function.start, size);
  if (size > 0 && size <= limits_.max_function_bytes && code.size() == size) {
    uint64_t at = 0;
    while (at < size) {
      auto insn = decode::Decode(machine_, code.subspan(at, std::min<uint64_t>(size - at, decode::kMaxInsnBytes)), function.start + at);
      if (!insn) break;
      layout.offsets.push_back(static_cast<uint32_t>(at));
      const bool direct = insn->flow == Flow::kJump || insn->flow == Flow::kCond;
      layout.tail_jumps |= insn->flow == Flow::kIndJump || (direct && (insn->target < function.start || insn->target >= function.end));
      at += insn->length;
    }
    layout.whole = at == size;
  }
  kept_boundaries_ += layout.offsets.size();
  if (kept_boundaries_ > limits_.max_kept_boundaries) {
    layouts_.clear();
    kept_boundaries_ = layout.offsets.size();
  }
  return layouts_[function.start] = std::move(layout);
}

Known Facts::IsBoundary(uint64_t address) {
  const Function* function = Find(address);
  if (!function) return Known::kUnknown;
  const Layout& layout = LayoutOf(*function);
  // Data in the middle of code makes everything behind it doubtful.
  const uint64_t offset = address - function->start;
  const bool hit = std::binary_search(layout.offsets.begin(), layout.offsets.end(), static_cast<uint32_t>(offset));
  if (hit) return Known::kYes;
  if (layout.whole) return Known::kNo;
  return !layout.offsets.empty() && offset < layout.offsets.back() ? Known::kNo : Known::kUnknown;
}

Known Facts::Defines(std::string_view name, uint64_t address) const {
  if (!has_dynamic_) return Known::kUnknown;
  auto it = std::lower_bound(dynamic_.begin(), dynamic_.end(), name, [&](const Dynamic& d, std::string_view n) { return names_[d.name] < n; });
  for (; it != dynamic_.end() && names_[it->name] == name; ++it) {
    if (it->value == address) return Known::kYes;
    // Its resolver holds the addresses that it chooses from.
    if (it->chosen) return IsEntry(address) == Known::kYes && IsTaken(address) == Known::kNo ? Known::kNo : IsEntry(address);
  }
  return Known::kNo;
}

Known Facts::TailJumps(const Function& function) {
  const Layout& layout = LayoutOf(function);
  return layout.tail_jumps ? Known::kYes : layout.whole ? Known::kNo : Known::kUnknown;
}

}  // namespace brink::cfi
