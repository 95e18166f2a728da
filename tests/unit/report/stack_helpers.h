// Short ways to write stacks in tests, newest first as in a recording.
#pragma once

#include <initializer_list>
#include <vector>

#include "report/aggregate.h"

namespace brink::report {

struct E {
  uint64_t from, to;
  Kind kind = Kind::kUnknown;
  int predicted = -1;  // -1 unknown, 0 mispredicted, 1 predicted
  uint32_t cycles = 0;
};

inline BranchEntry Entry(const E& e) {
  BranchEntry entry;
  entry.from = e.from;
  entry.to = e.to;
  entry.info = MakeInfo(e.kind) | (e.predicted == 0 ? 1 : 0) | (e.predicted == 1 ? 2 : 0) | uint64_t{e.cycles} << 4;
  return entry;
}

inline std::vector<BranchEntry> Stack(std::initializer_list<E> entries) {
  std::vector<BranchEntry> stack;
  for (const E& e : entries) stack.push_back(Entry(e));
  return stack;
}

// One process, 7, with one file mapped one to one at 0x1000..0x100000 (offset = address) and another at 0x200000.
struct OneProcess {
  OneProcess() {
    spaces.Mmap({.pid = 7, .start = 0x1000, .length = 0xff000, .page_offset = 0x1000, .path = "/bin/app"});
    spaces.Mmap({.pid = 7, .start = 0x200000, .length = 0x10000, .page_offset = 0, .path = "/lib/lib.so"});
  }
  SampleView Sample(const std::vector<BranchEntry>& stack, StackMeta meta = {}) {
    return {.pid = 7, .tid = 7, .ip = stack.empty() ? 0x1000 : stack[0].to, .branches = stack, .meta = meta};
  }
  symbol::ObjectTable objects;
  symbol::AddressSpaces spaces{&objects};
};

}  // namespace brink::report
