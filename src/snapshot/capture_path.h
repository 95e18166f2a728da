// What of a snapshot is brink's own: entries burnt between the hook and the helper, and entries that are not to be
// trusted. Pure: addresses in, counts out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/branch.h"

namespace brink {

struct CodeRange {
  uint64_t start = 0, end = 0;  // end exclusive
  std::string name;
  bool Contains(uint64_t address) const { return address >= start && address < end; }
};

// The function that holds an address of the kernel (BPF programs and trampolines included); nothing where unknown.
using CodeLookup = std::function<std::optional<CodeRange>(uint64_t address)>;

// How many of `entries` (newest first) are this moment's. Stops at the first empty entry, and before an entry whose
// flow cannot lead to the next newer one: the helper may add entries of an earlier use behind the true ones.
// `both_privileges`: kernel and user branches of every kind were recorded, so that nothing may be missing in between.
size_t TrustedLength(std::span<const BranchEntry> entries, bool both_privileges);

// The functions between a hook and the helper on the running kernel, learnt by firing hooks of the same kind.
class CapturePath {
 public:
  // `runs`: trusted stacks, newest first, taken with kernel and user branches recorded, each after many user branches,
  // so that a stack holds one capture only. `own`: ranges of brink's own programs. Functions seen in fewer than half of
  // the runs (an interrupt came by) are left out.
  static CapturePath Learn(std::span<const std::vector<BranchEntry>> runs, const CodeLookup& lookup, std::vector<CodeRange> own);

  // The same path for another hook of the kind: its programs are `own`, and `hooked` (a function under kprobe, fentry or
  // fexit) is never part of the path.
  CapturePath For(std::vector<CodeRange> own, const std::optional<CodeRange>& hooked) const;

  // Newest entries of a trusted stack that are the capture path's own. All of them: the hook itself is out of reach.
  size_t Burnt(std::span<const BranchEntry> entries, const CodeLookup& lookup) const;

  const std::vector<CodeRange>& functions() const { return functions_; }
  bool Contains(uint64_t address) const;

 private:
  bool Core(uint64_t address, const CodeLookup& lookup) const;

  std::vector<CodeRange> functions_;  // sorted
  std::vector<CodeRange> own_;
  std::optional<CodeRange> hooked_;
};

// Kernel code whose only purpose is to get from a hook to a BPF program: trampolines, dispatchers, probe handlers.
bool IsHookGlue(std::string_view function);
// Kernel code by which an interrupt returns.
bool IsInterruptReturn(std::string_view function);

}  // namespace brink
