// The functions of one object, sorted and without overlaps, with the origin of each name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "elf/file.h"

namespace brink::symbol {

enum class NameOrigin : uint8_t {
  kSymtab,    // full symbol table, of the file or of its debug file
  kDynsym,    // exported symbol that covers the address
  kPlt,       // stub that jumps to the named function
  kNearest,   // stripped: "~NAME+0x40", the function starts that far behind an exported one
  kFrame,     // stripped: only its extent is known, from .eh_frame
  kKallsyms,
  kBpf,
  kJit,       // perf map or jitdump
  kNone,      // unresolved: Function::reason says why
};
std::string_view NameOriginName(NameOrigin origin);

// Why an address has no name. Shown to people and written to JSON.
enum class Unresolved : uint8_t {
  kNot,              // it has one
  kUnmapped,         // no mapping covers it
  kNoProcess,        // the recording holds no mappings of the process at all
  kNoFile,           // the file is gone
  kUnreadable,       // the file is there and cannot be read or is damaged
  kBuildIdMismatch,  // the file there now has another build id
  kNoSymbols,        // stripped, and no extents either
  kGap,              // between functions
  kKernelRestricted, // kallsyms hides its addresses
  kOtherKernel,      // recorded on another kernel, and no vmlinux given
  kNoJitMap,         // anonymous code without perf map or jitdump
  kNoKernelMap,      // kernel address, and the recording says nothing of the kernel's mapping
  kOtherHost,        // recorded on another host, and there is no build id to compare
};
std::string_view UnresolvedName(Unresolved reason);

struct FunctionEntry {
  uint64_t start = 0;  // link-time address (files), or the object's own offsets (others)
  uint64_t end = 0;
  std::string name;    // as found, mangled
  NameOrigin origin = NameOrigin::kNone;
};

class FunctionTable {
 public:
  // From an ELF file and, where there is one, its separate debug file. Rules among symbols at one address are perf's:
  // with size before without, not weak before weak, global before local, fewer leading underscores, longer name.
  static FunctionTable FromElf(const elf::File& file, const elf::File* debug);
  // Takes entries in any order; overlaps are cut at the next start.
  static FunctionTable FromEntries(std::vector<FunctionEntry> entries);

  const FunctionEntry* Find(uint64_t address) const;
  // Index in entries(), or -1.
  int64_t IndexOf(uint64_t address) const;
  const std::vector<FunctionEntry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<FunctionEntry> entries_;
};

}  // namespace brink::symbol
