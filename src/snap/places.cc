#include "snap/places.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "elf/file.h"
#include "elf/symbols.h"
#include "snap/debug_info.h"
#include "snap/steppable.h"
#include "symbol/demangle.h"
#include "symbol/locate.h"

namespace brink::snap {
namespace {

constexpr size_t kMostPlaces = 20'000;

// One function symbol with what tells versions and resolvers apart.
struct Function {
  std::string name, version;
  uint64_t vaddr = 0, size = 0;
  bool is_default = true;  // "@@", or not versioned
  bool ifunc = false;
};

uint16_t Word16(const std::string& bytes, size_t at) {
  uint16_t value = 0;
  if (at + 2 <= bytes.size()) std::memcpy(&value, bytes.data() + at, 2);
  return value;
}
uint32_t Word32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  if (at + 4 <= bytes.size()) std::memcpy(&value, bytes.data() + at, 4);
  return value;
}
uint64_t Word64(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  if (at + 8 <= bytes.size()) std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

// Index in .gnu.version -> version name, of the versions that the file defines (Elf64_Verdef, Elf64_Verdaux).
std::map<uint16_t, std::string> VersionNames(const elf::File& file, const elf::SymbolTable& dynsym) {
  std::map<uint16_t, std::string> names;
  auto bytes = file.ReadSection(".gnu.version_d");
  if (!bytes.ok()) return names;
  constexpr size_t kMostVersions = 4096;
  for (size_t at = 0; at < bytes->size() && names.size() < kMostVersions;) {
    uint16_t index = Word16(*bytes, at + 4);
    uint32_t aux = Word32(*bytes, at + 12), next = Word32(*bytes, at + 16);
    uint32_t name = Word32(*bytes, at + aux);
    if (name < dynsym.names.size()) names[index] = dynsym.names.c_str() + name;
    if (next == 0) break;
    at += next;
  }
  return names;
}

void AddFunctions(const elf::File& file, elf::SymbolSource source, std::vector<Function>* out) {
  auto table = elf::ReadSymbols(file, source);
  if (!table.ok()) return;
  std::string versions;
  std::map<uint16_t, std::string> version_names;
  if (source == elf::SymbolSource::kDynsym) {
    auto section = file.ReadSection(".gnu.version");
    if (section.ok()) versions = *section;
    version_names = VersionNames(file, *table);
  }
  constexpr uint16_t kHidden = 0x8000;
  for (size_t i = 0; i < table->symbols.size(); ++i) {
    const elf::Symbol& symbol = table->symbols[i];
    if (!symbol.function() || !symbol.defined() || symbol.value == 0) continue;
    Function function;
    function.name = table->NameOf(symbol);
    function.vaddr = symbol.value;
    function.size = symbol.size;
    function.ifunc = symbol.type == 10;
    uint16_t version = Word16(versions, i * 2);
    function.is_default = !(version & kHidden);
    auto named = version_names.find(version & ~kHidden);
    if (named != version_names.end()) function.version = named->second;
    out->push_back(std::move(function));
  }
}

// Symbols of the file and, where there is one, of its separate debug file.
std::vector<Function> Functions(const elf::File& file, const std::string& path) {
  std::vector<Function> functions;
  AddFunctions(file, elf::SymbolSource::kDynsym, &functions);
  AddFunctions(file, elf::SymbolSource::kSymtab, &functions);
  symbol::Object object = {.kind = symbol::ObjectKind::kFile, .path = path, .build_id = file.BuildId().value_or("")};
  symbol::LocatedFile located = symbol::Locate(object, {});
  if (located.debug) AddFunctions(*located.debug, elf::SymbolSource::kSymtab, &functions);
  return functions;
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat left, right;
  return stat(a.c_str(), &left) == 0 && stat(b.c_str(), &right) == 0 && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// The implementation that this machine's loader picked, where the very file is mapped into this process (the C library
// is): nothing of the target runs, and nothing is loaded.
std::optional<uint64_t> PickedByOurLoader(const std::string& path, const std::string& name) {
  void* address = dlsym(RTLD_DEFAULT, name.c_str());
  Dl_info info = {};
  if (!address || !dladdr(address, &info) || !info.dli_fname || !SameFile(info.dli_fname, path)) return std::nullopt;
  return reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase);
}

std::string Nearest(std::string_view name, const std::vector<Function>& functions) {
  std::vector<std::string> names;
  for (const Function& function : functions) names.push_back(function.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& near : NearestNames(name, names)) text += (text.empty() ? "; nearest: " : ", ") + EscapeForTerminal(near);
  return text;
}

// Whether a probe may be set `offset` bytes into the function at `start`.
Status CheckPlace(const elf::File& file, const std::string& name, uint64_t start, uint64_t size, uint64_t offset) {
  constexpr uint64_t kMostRead = 1 << 20;
  if (offset == 0 || offset > kMostRead) return OkStatus();
  if (size && offset >= size) return NotFound(absl::StrFormat("%s has %d bytes: there is no %s+0x%x (0x%x, the address, is taken as it is)", EscapeForTerminal(name), size, EscapeForTerminal(name), offset, start + offset));
  std::string code;
  // Less where the segment ends.
  for (uint64_t more : {15, 8, 1}) {
    auto read = file.ReadVaddr(start, offset + more);
    if (!read.ok()) continue;
    code = *std::move(read);
    break;
  }
  const auto inside = InsideInstruction({reinterpret_cast<const uint8_t*>(code.data()), code.size()}, offset);
  if (!inside) return OkStatus();
  return FailedPrecondition(absl::StrFormat("%s+0x%x lies inside of an instruction: a probe there would change what the program does. Whole ones begin at +0x%x and +0x%x (by the function's bytes from its start; 0x%x sets it all the same)", EscapeForTerminal(name), offset, inside->before, inside->after, start + offset));
}

class SymbolSearch {
 public:
  SymbolSearch(const Trigger& trigger, const std::string& path, const elf::File& file)
      : trigger_(trigger), path_(path), file_(file), functions_(Functions(file, path)) {}

  StatusOr<std::vector<Place>> Run() {
    std::string wanted = trigger_.symbol, version;
    if (size_t at = wanted.find('@'); at != std::string::npos) {
      version = wanted.substr(wanted.find_last_of('@') + 1);
      wanted.erase(at);
    }
    const bool glob = trigger_.glob();
    for (const Function& function : functions_) {
      bool match = glob ? fnmatch(wanted.c_str(), function.name.c_str(), 0) == 0 : IsNamed(function, wanted);
      if (!match || (version.empty() ? !function.is_default : function.version != version)) continue;
      if (function.ifunc) RETURN_IF_ERROR(Implementations(function, glob));
      else RETURN_IF_ERROR(Add(function.vaddr, function.name, function.size));
      if (places_.size() >= kMostPlaces) return InvalidArgument("'" + EscapeForTerminal(trigger_.symbol) + "' matches more than " + std::to_string(kMostPlaces) + " functions");
    }
    if (places_.empty()) return NothingFound(wanted, version);
    return std::move(places_);
  }

 private:
  static bool IsNamed(const Function& function, const std::string& wanted) {
    if (function.name == wanted) return true;
    if (!function.name.starts_with("_Z") && !function.name.starts_with("_R")) return false;
    // The demangled name, with or without its parameters.
    std::string plain = symbol::Demangle(function.name);
    return plain == wanted || plain.substr(0, plain.find('(')) == wanted;
  }

  // `size` 0: not known.
  Status Add(uint64_t start, const std::string& name, uint64_t size) {
    const uint64_t vaddr = start + trigger_.offset;
    if (!seen_.insert(vaddr).second) return OkStatus();
    auto offset = file_.VaddrToOffset(vaddr);
    if (!offset) return OkStatus();
    Status place = CheckPlace(file_, name, start, size, trigger_.offset);
    // Those of a glob that have no such place are none.
    if (!place.ok()) return trigger_.glob() ? OkStatus() : place;
    places_.push_back({.offset = *offset, .vaddr = vaddr, .name = trigger_.offset ? absl::StrFormat("%s+0x%x", name, trigger_.offset) : name});
    return OkStatus();
  }

  Status Implementations(const Function& resolver, bool glob) {
    size_t before = places_.size();
    if (auto picked = PickedByOurLoader(path_, resolver.name)) {
      std::string name = resolver.name;
      for (const Function& function : functions_) {
        if (function.vaddr == *picked && !function.ifunc) name = resolver.name + " (" + function.name + ")";
      }
      return Add(*picked, name, 0);
    }
    // Every implementation, by the names that C libraries give them.
    for (const Function& function : functions_) {
      if (!function.ifunc && function.name.starts_with("__" + resolver.name + "_")) RETURN_IF_ERROR(Add(function.vaddr, resolver.name + " (" + function.name + ")", function.size));
    }
    if (places_.size() == before && !glob && !seen_.contains(resolver.vaddr)) {
      return NotFound("'" + resolver.name + "' is chosen when the program starts (IFUNC), and the file is stripped of its implementations' names: install its debug symbols, or probe a caller");
    }
    return OkStatus();
  }

  Status NothingFound(const std::string& wanted, const std::string& version) const {
    std::string where = " in " + EscapeForTerminal(path_);
    if (functions_.empty()) {
      return NotFound("'" + EscapeForTerminal(wanted) + "': there are no symbols" + where + " (stripped): give 0xADDRESS, or install its debug symbols (debuginfod-find, -dbgsym packages)");
    }
    if (!version.empty()) return NotFound("no version '" + EscapeForTerminal(version) + "' of '" + EscapeForTerminal(wanted) + "'" + where);
    if (IsInlinedEverywhere(path_, wanted)) {
      return NotFound("'" + EscapeForTerminal(wanted) + "' is inlined everywhere" + where + ": it has no entry of its own; probe a line (FILE:LINE) or a caller");
    }
    bool has_symtab = file_.FindSection(".symtab") != nullptr;
    return NotFound("no function '" + EscapeForTerminal(wanted) + "'" + where + (has_symtab ? "" : " (stripped: exported functions only; give 0xADDRESS, or install its debug symbols)") + Nearest(wanted, functions_));
  }

  const Trigger& trigger_;
  const std::string& path_;
  const elf::File& file_;
  std::vector<Function> functions_;
  std::vector<Place> places_;
  std::set<uint64_t> seen_;
};

StatusOr<std::vector<Place>> AtAddress(const Trigger& trigger, const elf::File& file, const std::string& path) {
  auto offset = file.VaddrToOffset(trigger.address);
  if (!offset) return NotFound(absl::StrFormat("address 0x%x lies in no segment of %s; addresses are link-time ones, as nm and objdump print them", trigger.address, EscapeForTerminal(path)));
  const auto segments = file.segments();
  const bool code = std::any_of(segments.begin(), segments.end(), [&](const elf::Segment& segment) {
    return segment.load() && segment.executable() && trigger.address >= segment.vaddr && trigger.address - segment.vaddr < segment.mem_size;
  });
  if (!code) return NotFound(absl::StrFormat("address 0x%x of %s is data: nothing is executed there", trigger.address, EscapeForTerminal(path)));
  return std::vector<Place>{{.offset = *offset, .vaddr = trigger.address, .name = absl::StrFormat("0x%x", trigger.address)}};
}

StatusOr<std::vector<Place>> AtLine(const Trigger& trigger, const elf::File& file, const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<uint64_t> addresses, AddressesOfLine(path, trigger.line_file, trigger.line));
  std::vector<Place> places;
  for (uint64_t address : addresses) {
    if (auto offset = file.VaddrToOffset(address)) places.push_back({.offset = *offset, .vaddr = address, .name = absl::StrFormat("%s:%d", trigger.line_file, trigger.line)});
  }
  if (places.empty()) return NotFound("line " + std::to_string(trigger.line) + " has no code");
  return places;
}

// NT_STAPSDT: location, base of .stapsdt.base, semaphore, then provider, name, arguments.
StatusOr<std::vector<Place>> AtUsdt(const Trigger& trigger, const elf::File& file, const std::string& path) {
  auto notes = file.ReadSection(".note.stapsdt");
  if (!notes.ok() || !file.is64()) return NotFound(EscapeForTerminal(path) + " has no usdt probes");
  const elf::Section* base = file.FindSection(".stapsdt.base");
  std::vector<Place> places;
  std::vector<std::string> names;
  for (size_t at = 0; at + 12 <= notes->size();) {
    uint32_t name_size = Word32(*notes, at), size = Word32(*notes, at + 4), type = Word32(*notes, at + 8);
    size_t begin = at + 12 + ((size_t{name_size} + 3) & ~size_t{3});
    at = begin + ((size_t{size} + 3) & ~size_t{3});
    constexpr uint32_t kStapsdt = 3;
    if (type != kStapsdt || begin + size > notes->size() || size < 24) continue;
    std::string text = notes->substr(begin + 24, size - 24);
    std::string provider = text.c_str();
    std::string probe = provider.size() < text.size() ? text.c_str() + provider.size() + 1 : "";
    size_t rest = provider.size() + probe.size() + 2;
    names.push_back(provider + ":" + probe);
    if ((!trigger.category.empty() && fnmatch(trigger.category.c_str(), provider.c_str(), 0) != 0) || fnmatch(trigger.name.c_str(), probe.c_str(), 0) != 0) continue;
    // Prelink moves .stapsdt.base with the rest.
    uint64_t shift = base ? base->addr - Word64(*notes, begin + 8) : 0;
    uint64_t location = Word64(*notes, begin) + shift, semaphore = Word64(*notes, begin + 16);
    auto offset = file.VaddrToOffset(location);
    if (!offset) continue;
    Place place = {.offset = *offset, .vaddr = location, .name = provider + ":" + probe, .arguments = rest < text.size() ? text.c_str() + rest : ""};
    if (semaphore) place.ref_ctr = file.VaddrToOffset(semaphore + shift).value_or(0);
    places.push_back(std::move(place));
  }
  if (!places.empty()) return places;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string near;
  for (const std::string& name : NearestNames((trigger.category.empty() ? "" : trigger.category + ":") + trigger.name, names)) near += (near.empty() ? "; nearest: " : ", ") + EscapeForTerminal(name);
  return NotFound("no usdt probe '" + EscapeForTerminal(trigger.name) + "' in " + EscapeForTerminal(path) + near);
}

}  // namespace

StatusOr<std::vector<Place>> FindPlaces(const Trigger& trigger, const std::string& path) {
  ASSIGN_OR_RETURN(elf::File file, elf::File::Open(path));
  auto places = trigger.kind == TriggerKind::kUsdt   ? AtUsdt(trigger, file, path)
                : !trigger.line_file.empty()         ? AtLine(trigger, file, path)
                : trigger.symbol.empty()             ? AtAddress(trigger, file, path)
                                                     : SymbolSearch(trigger, path, file).Run();
  RETURN_IF_ERROR(places.status());
  for (Place& place : *places) {
    // As far as a decision needs; less where the segment ends.
    auto code = file.ReadVaddr(place.vaddr, 8);
    if (!code.ok()) code = file.ReadVaddr(place.vaddr, 5);
    if (code.ok()) place.mangled = MangledByUprobe({reinterpret_cast<const uint8_t*>(code->data()), code->size()});
  }
  return places;
}

}  // namespace brink::snap
