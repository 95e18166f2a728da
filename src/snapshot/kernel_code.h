// Names and ranges of kernel code, for telling the capture path: /proc/kallsyms with the JIT's own entries.
#pragma once

#include <vector>

#include "base/status.h"
#include "snapshot/capture_path.h"

namespace brink {

// A table made now: programs and trampolines that come later are not in it. PermissionDenied where addresses are hidden.
class KernelCode {
 public:
  static StatusOr<KernelCode> Read();
  static StatusOr<KernelCode> Parse(std::string_view kallsyms);

  std::optional<CodeRange> Find(uint64_t address) const;
  std::optional<CodeRange> FindFunction(std::string_view name) const;
  CodeLookup Lookup() const;  // refers to this table

 private:
  std::vector<CodeRange> ranges_;  // sorted
  std::vector<std::pair<std::string, size_t>> aliases_;  // further names, with their index in ranges_
};

// Where the kernel put a loaded program (its subprograms too). Needs its descriptor.
StatusOr<std::vector<CodeRange>> ProgramRanges(int program_fd);

}  // namespace brink
