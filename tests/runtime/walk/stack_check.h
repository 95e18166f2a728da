// Judges branch stacks against the program text, with a decoder of its own: an outsider's check of any source.
//
// For a stack of every taken branch (newest first): each record's source must be a branch of the recorded kind, a direct
// one must lead where its encoding says, and between a target and the next source the code must run straight.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/branch.h"

namespace brink::testing_support {

struct StackVerdict {
  uint64_t stacks = 0;
  uint64_t entries = 0;
  uint64_t ranges = 0;        // straight pieces that were checked
  uint64_t unreadable = 0;    // records or ranges whose code was not to be had (JIT): not judged
  uint64_t wrong = 0;
  std::vector<std::string> complaints;  // the first few
};

// `code` gives up to `size` bytes at a user address, fewer or none when not known.
using CodeAt = std::function<std::string(uint64_t address, size_t size)>;

// Whose instructions the code has.
enum class Text : uint8_t { kX86, kA64 };
#ifdef __aarch64__
inline constexpr Text kHostText = Text::kA64;
#else
inline constexpr Text kHostText = Text::kX86;
#endif

// Adds one stack to the verdict. `start` is where the first range begins for future stacks (the sample's ip); 0 for
// past stacks, whose oldest record has no range.
void CheckStack(std::span<const BranchEntry> newest_first, uint64_t start, const CodeAt& code, StackVerdict* verdict, Text text = kHostText);

}  // namespace brink::testing_support
