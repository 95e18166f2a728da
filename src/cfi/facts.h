// What a program file says about where control may go: the ground on which policies judge.
//
// Made once per build-id from a file that nobody vouches for; every count is bounded and what does not fit is left out
// and said (`truncated`). Addresses are link-time. Instruction boundaries are found on demand, function by function,
// and kept; the object is otherwise immutable. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/status.h"
#include "decode/flow.h"
#include "elf/file.h"

namespace brink::cfi {

enum class Known : uint8_t { kNo, kYes, kUnknown };

// The instruction by which a machine's 64-bit code asks the kernel: syscall; svc #0.
std::span<const uint8_t> SystemCallCode(decode::Machine machine);

// Whose conventions the code follows where they differ from the platform's.
enum class Runtime : uint8_t { kNative, kGo, kRust, kOcaml, kJvm, kNode };
std::string_view RuntimeName(Runtime runtime);

struct FactLimits {
  uint64_t max_text_bytes = 512u << 20;
  size_t max_functions = 2'000'000;
  size_t max_function_bytes = 1u << 20;  // longer ones get no boundaries
  size_t max_kept_boundaries = 8'000'000;  // over all functions; then the memory of boundaries starts anew
};

struct Function {
  uint64_t start = 0, end = 0;  // end == start: extent not known
  uint32_t name = 0;            // index for NameOf; 0 = none
  bool unwind = false;          // has an FDE
};

struct PltSlot {
  uint64_t start = 0, end = 0;
  std::string name;  // of the wanted symbol; empty: a resolver of the file chooses
};

class Facts {
 public:
  // Fails only where the file's executable parts cannot be read at all.
  static StatusOr<Facts> Load(const elf::File& file, const FactLimits& limits = {});

  const std::string& build_id() const { return build_id_; }  // raw bytes; "" none
  std::span<const Function> functions() const { return functions_; }  // by start; of equal starts the longest only
  std::span<const PltSlot> plt() const { return plt_; }
  std::span<const uint64_t> landing_pads() const { return pads_; }     // sorted
  std::span<const uint64_t> address_taken() const { return taken_; }   // sorted; into text
  decode::Machine machine() const { return machine_; }
  bool ibt() const { return features_ & 1; }  // marked for landing pads at indirect targets: endbr64, or bti
  bool shadow_stack() const { return features_ & 2; }
  bool has_unwind() const { return has_unwind_; }
  Runtime runtime() const { return runtime_; }
  uint64_t start() const { return start_; }  // where the kernel enters a program of this file, or its dynamic linker; 0: nowhere
  bool truncated() const { return truncated_; }

  // The function whose extent holds `address` (the innermost), or nullptr.
  const Function* Find(uint64_t address) const;
  const PltSlot* FindPlt(uint64_t address) const;
  // Whether the slots' common way to the dynamic linker's resolver begins there, which on A64 they all name until they are bound.
  bool IsPltHead(uint64_t address) const;
  std::string_view NameOf(const Function& function) const;

  // Address of what lies at `offset` of the file's executable parts; nothing where none does.
  std::optional<uint64_t> AddressOfOffset(uint64_t offset) const;
  bool InText(uint64_t address) const { return !Code(address, 1).empty(); }
  // At most `size` bytes of code from `address` on; empty outside the executable parts.
  std::span<const uint8_t> Code(uint64_t address, size_t size) const;

  Known IsEntry(uint64_t address) const;    // no function information around it: unknown
  Known IsPad(uint64_t address) const;      // landing pad of an exception table
  Known IsTaken(uint64_t address) const;    // its address is somewhere in the file
  Known HasEndbr(uint64_t address) const;   // a landing pad for indirect calls: endbr64; bti c and its like
  // The instruction at `address`; nothing outside the executable parts.
  std::optional<decode::Insn> InsnAt(uint64_t address) const;
  // Whether what stands there is the code that signal handlers return to.
  bool IsRestorer(uint64_t address) const;
  Known IsBoundary(uint64_t address);       // of an instruction
  // The call that ends at `address`, if the bytes before it can be one (several readings: the longest).
  std::optional<decode::Insn> CallBefore(uint64_t address) const;
  // Whether the dynamic symbol `name` stands for `address`; a symbol whose address is chosen at run time (IFUNC) stands
  // for every entry whose address the file holds. A file without dynamic symbols does not say.
  Known Defines(std::string_view name, uint64_t address) const;
  // Whether the function leaves itself by a jump: then others may return in its name.
  Known TailJumps(const Function& function);

 private:
  Facts() = default;
  void ReadFunctions(const elf::File& file, const FactLimits& limits);
  void ReadTaken(const elf::File& file);
  void ReadProperty(const elf::File& file);
  void ReadRuntime(const elf::File& file);

  struct Text {
    uint64_t vaddr = 0, offset = 0;
    std::string bytes;
  };
  struct Layout {
    std::vector<uint32_t> offsets;  // of instructions, ascending; empty: could not be decoded to the end
    bool whole = false;
    bool tail_jumps = false;
  };
  const Layout& LayoutOf(const Function& function);

  FactLimits limits_;
  std::string build_id_;
  std::vector<Text> text_;
  std::vector<Function> functions_;
  std::vector<uint64_t> furthest_;  // largest end of functions_[0..i]
  std::vector<std::string> names_;
  struct Dynamic {
    uint32_t name;
    bool chosen;  // IFUNC
    uint64_t value;
  };
  std::vector<Dynamic> dynamic_;  // by name
  bool has_dynamic_ = false;      // a table of dynamic symbols, empty or not
  std::vector<PltSlot> plt_;
  std::vector<uint64_t> pads_, taken_;
  decode::Machine machine_ = decode::Machine::kX86;
  uint32_t features_ = 0;
  uint64_t start_ = 0;
  Runtime runtime_ = Runtime::kNative;
  bool has_unwind_ = false, truncated_ = false;
  absl::flat_hash_map<uint64_t, Layout> layouts_;  // by function start
  size_t kept_boundaries_ = 0;
};

}  // namespace brink::cfi
