// From the entries of one sample to branches and straight ranges, by rule.
//
// docs/report.md states each rule for users. Everything dropped or refused is counted under its rule. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/branch.h"

namespace brink::report {

enum class Rule : uint8_t {
  kZero,             // entry with from and to 0: an unused slot
  kHalf,             // from or to is 0: one side was hidden from the recorder; ends the straight line
  kWrongPath,        // speculated on the wrong path: never happened
  kDuplicateNewest,  // the newest entry repeats the next one, and no straight line leads from its target to its source
  kRangeBackward,    // range whose end lies before its start
  kRangeTooLong,     // longer than kMaxRange
  kRangeCrossing,    // one end in the kernel, the other in user space
  kRangeObjects,     // ends in different mappings
  kRangeGap,         // a dropped half or unused entry stood between
  kRangeRefused,     // stack is not contiguous: not all branches were recorded
  kRangeCallStack,   // recorded in call-stack mode: entries are calls that have not returned
};
inline constexpr size_t kRuleCount = 11;
std::string_view RuleName(Rule rule);  // "zero_entry", ...: JSON keys
std::string_view RuleText(Rule rule);  // for people

struct RuleCounts {
  std::array<uint64_t, kRuleCount> counts = {};
  uint64_t& operator[](Rule rule) { return counts[static_cast<size_t>(rule)]; }
  uint64_t operator[](Rule rule) const { return counts[static_cast<size_t>(rule)]; }
};

inline constexpr uint64_t kMaxRange = 1u << 20;             // bytes; longer straight code does not exist
inline constexpr uint64_t kMaxDuplicateLoop = 0x1000;       // a self-loop of more bytes is taken for a duplicate

struct StackMeta {
  bool contiguous = true;
  bool call_stack = false;
  bool newest_taken_off = false;  // the second copy of the newest entry is gone already; it is only counted
};

// Whether the hardware recorded the newest entry twice. Can be told from whole stacks only.
bool NewestTwice(std::span<const BranchEntry> stack, const StackMeta& meta);

// One sample's entries after the rules, newest first. Reuse the object: its memory stays.
struct CleanStack {
  std::vector<BranchEntry> entries;
  // straight[i]: the code from entries[i + 1].to to entries[i].from ran without a taken branch. One less than entries.
  std::vector<uint8_t> straight;
  // The range before entries[i], where straight[i] is set.
  uint64_t range_start(size_t i) const { return entries[i + 1].to; }
  uint64_t range_end(size_t i) const { return entries[i].from; }
};

// Applies the rules to `stack` (newest first) and adds to `counts`.
void Clean(std::span<const BranchEntry> stack, const StackMeta& meta, CleanStack* out, RuleCounts* counts);

}  // namespace brink::report
