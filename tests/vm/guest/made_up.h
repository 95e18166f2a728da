// Made-up branch stacks with every value of every field, and what an event's filter leaves of them.
#pragma once

#include <cstring>

#include <gtest/gtest.h>

#include "harness.h"

namespace brink::guest {

inline constexpr uint64_t kKernelBase = 0xffffffff81000000;

struct Info { uint64_t mispredicted, predicted, in_tx, abort, cycles, type, spec, new_type, priv; };

constexpr uint64_t Pack(const Info& i) {
  return i.mispredicted | i.predicted << 1 | i.in_tx << 2 | i.abort << 3 | i.cycles << 4 | i.type << 20 | i.spec << 24 |
         i.new_type << 26 | i.priv << 30;
}

inline constexpr uint64_t kSpecBits = Pack({.spec = 3}), kCycleBits = Pack({.cycles = 0xffff}), kTypeBits = Pack({.type = 15, .new_type = 15}),
                   kPrivBits = Pack({.priv = 7}), kFlagBits = Pack({1, 1, 1, 1});

// `stacks` stacks of differing length and all values of the fields; each address names stack and entry.
inline std::vector<Stack> MadeUp(uint64_t stacks, uint64_t entries) {
  std::vector<Stack> result;
  for (uint64_t s = 0; s < stacks; s++) {
    Stack stack;
    for (uint64_t e = 0; e < entries - s % 3; e++) {
      uint64_t number = s << 12 | e << 4;
      bool from_kernel = e % 3 == 1, to_kernel = e % 4 == 2;
      uint64_t type = (s + e) % 16;
      stack.push_back({(from_kernel ? kKernelBase : 0x400000) + number, (to_kernel ? kKernelBase : 0x400000) + number + 8,
                       Pack({e & 1, ~e & 1, e >> 1 & 1, e >> 2 & 1, (s * 64 + e * 977) & 0xffff, type, e & 3, type == 15 ? e % 8 : 0,
                             to_kernel ? 2u : 1u})});
    }
    result.push_back(stack);
  }
  return result;
}

template <typename Keep>
Stack Filtered(const Stack& stack, uint64_t cleared, Keep keep) {
  Stack kept;
  for (guest_branch branch : stack) {
    if (!keep(branch)) continue;
    branch.info &= ~cleared;
    kept.push_back(branch);
  }
  return kept;
}

inline testing::AssertionResult Same(const Stack& got, const Stack& expected) {
  if (got.size() != expected.size()) return testing::AssertionFailure() << got.size() << " entries instead of " << expected.size();
  for (size_t i = 0; i < got.size(); i++)
    if (memcmp(&got[i], &expected[i], sizeof(got[i])) != 0)
      return testing::AssertionFailure() << "entry " << i << ": " << std::hex << got[i].from << "->" << got[i].to << " " << got[i].info
                                         << " instead of " << expected[i].from << "->" << expected[i].to << " " << expected[i].info;
  return testing::AssertionSuccess();
}

}  // namespace brink::guest
