// Names, lines and code for Locations.
//
// Everything is looked up on first use and kept: the tables of an object, and one Function per name. Not thread-safe.
// Nothing here fails as a whole: an address without a name gets a Function that says why.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "dwarf/info.h"
#include "symbol/kallsyms.h"
#include "symbol/locate.h"
#include "symbol/object.h"

namespace brink::symbol {

struct SymbolOptions {
  LocateOptions locate;
  std::string vmlinux;                      // "" = the running kernel if it is the recorded one
  std::string kallsyms = "/proc/kallsyms";  // file with its symbols
  bool kallsyms_given = false;              // the user named that file: it is the recorded kernel's
  std::string kernel_notes = "/sys/kernel/notes";
  bool demangle = true;
  bool lines = true;                        // read DWARF
  std::string map_dir = "/tmp";             // of perf-PID.map
};

using FunctionId = uint32_t;

// One function, or one reason for not knowing one (per object). Addresses are link-time (see VaddrOf).
struct Function {
  ObjectId object = kNoObject;
  std::string name;     // demangled; "[libfoo.so]" and the like when unresolved
  std::string mangled;  // as found; "" when unresolved
  uint64_t start = 0;
  uint64_t end = 0;     // 0 when unresolved
  NameOrigin origin = NameOrigin::kNone;
  Unresolved reason = Unresolved::kNot;

  bool resolved() const { return origin != NameOrigin::kNone; }
};

struct SourceFrame {
  std::string function;  // demangled
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
  bool inlined = false;
};

class Symbolizer {
 public:
  Symbolizer(const ObjectTable* objects, SymbolOptions options);
  ~Symbolizer();

  // Ids are stable; equal functions have equal ids.
  FunctionId FunctionAt(const Location& location);
  const Function& operator[](FunctionId id) const { return functions_[id]; }
  size_t function_count() const { return functions_.size(); }

  // Link-time address of a location: by program headers for files, the offset itself for other kinds. Nothing when
  // the file is not there or no segment holds the offset.
  std::optional<uint64_t> VaddrOf(const Location& location);
  // The location of a link-time address of an object.
  std::optional<Location> LocationOf(ObjectId object, uint64_t vaddr);

  // Source position, innermost inlined function first. Empty where there is no debug information.
  std::vector<SourceFrame> FramesAt(const Location& location);
  // "file.c:12" of the innermost frame, short file name; "" unknown.
  std::string LineAt(const Location& location);

  // Machine code from `location` on, at most `size` bytes; the error says why not.
  StatusOr<std::string> CodeAt(const Location& location, uint64_t size);
  // EM_* of the object, 0 unknown.
  uint16_t MachineOf(ObjectId object);

  // What is known of the object's file. Valid as long as this.
  const LocatedFile& FileOf(ObjectId object);
  // jitdump of a process (from AddressSpaces::JitDumpOf), as recorded.
  void SetJitDump(int32_t pid, std::string path);
  // Maps of JIT code are read again: a running program goes on writing them. Ids stay valid.
  void ForgetJitCode();
  // Functions whose name or demangled name is `name`, else (none equal) those that contain it.
  std::vector<FunctionId> FindFunctions(std::string_view name, std::span<const ObjectId> objects);

 private:
  struct Loaded;
  Loaded& Load(ObjectId object);
  void LoadElf(const Object& object, Loaded& loaded);
  void LoadKernel(const Object& object, Loaded& loaded);
  void LoadModule(const Object& object, Loaded& loaded);
  void LoadJit(const Object& object, Loaded& loaded);
  FunctionId Unnamed(ObjectId object, Unresolved reason);
  FunctionId Intern(ObjectId object, Loaded& loaded, size_t index);
  bool IsRunningKernel(const Object& object);
  // Whether kallsyms is of the kernel that was recorded, as far as the recording tells.
  bool KallsymsApply();
  const StatusOr<Kallsyms>& ReadKallsyms();

  const ObjectTable& objects_;
  SymbolOptions options_;
  std::vector<std::unique_ptr<Loaded>> loaded_;
  std::deque<Function> functions_;
  absl::flat_hash_map<std::pair<ObjectId, uint8_t>, FunctionId> unnamed_;
  absl::flat_hash_map<int32_t, std::string> jitdumps_;
  // For the maps and dumps of all processes together: whoever has its name in a recording may write them.
  static constexpr size_t kMostJitBytes = 128u << 20, kMostJitBytesEach = 64u << 20;
  size_t jit_bytes_left_ = kMostJitBytes;
  std::optional<StatusOr<Kallsyms>> kallsyms_;  // read once: the kernel takes its time to print them
};

}  // namespace brink::symbol
