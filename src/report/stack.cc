#include "report/stack.h"

namespace brink::report {
namespace {

bool IsKernel(uint64_t address) { return address >> 63 && (address & ~uint64_t{0xfff}) != 0xffffffffff600000; }

}  // namespace

bool NewestTwice(std::span<const BranchEntry> stack, const StackMeta& meta) {
  // Where records are left out a branch may well follow itself.
  if (stack.size() < 2 || !meta.contiguous) return false;
  const BranchEntry &newest = stack[0], &next = stack[1];
  if (newest.from != next.from || newest.to != next.to) return false;
  // A loop of one branch looks the same, but then the code from its target to its source is a short straight line.
  return newest.to > newest.from || newest.from - newest.to > kMaxDuplicateLoop;
}

std::string_view RuleName(Rule rule) {
  constexpr std::string_view kNames[kRuleCount] = {"zero_entry", "half_entry", "wrong_path", "duplicate_newest", "range_backward",
                                                   "range_too_long", "range_crossing", "range_objects", "range_gap",
                                                   "range_not_contiguous", "range_call_stack"};
  return kNames[static_cast<size_t>(rule)];
}

std::string_view RuleText(Rule rule) {
  constexpr std::string_view kTexts[kRuleCount] = {
      "unused entries (all zero)",
      "entries with one side hidden",
      "entries of wrong-path speculation",
      "newest entries recorded twice",
      "ranges that end before they start",
      "ranges longer than 1 MiB",
      "ranges between kernel and user space",
      "ranges between two mappings",
      "ranges over a dropped entry",
      "ranges refused: branches were filtered out",
      "ranges refused: call-stack mode"};
  return kTexts[static_cast<size_t>(rule)];
}

void Clean(std::span<const BranchEntry> stack, const StackMeta& meta, CleanStack* out, RuleCounts* counts) {
  out->entries.clear();
  out->straight.clear();
  bool gap = false;
  if (meta.newest_taken_off) ++(*counts)[Rule::kDuplicateNewest];
  for (size_t i = 0; i < stack.size(); ++i) {
    const BranchEntry& entry = stack[i];
    if (entry.from == 0 || entry.to == 0) {
      ++(*counts)[entry.from == entry.to ? Rule::kZero : Rule::kHalf];
      gap = true;
      continue;
    }
    if (entry.spec() == Spec::kWrongPath) {
      ++(*counts)[Rule::kWrongPath];
      continue;
    }
    if (i == 0 && NewestTwice(stack, meta)) {
      ++(*counts)[Rule::kDuplicateNewest];
      continue;
    }
    if (!out->entries.empty()) {
      const uint64_t start = entry.to, end = out->entries.back().from;
      Rule refused;
      bool straight = false;
      if (meta.call_stack) refused = Rule::kRangeCallStack;
      else if (!meta.contiguous) refused = Rule::kRangeRefused;
      else if (gap) refused = Rule::kRangeGap;
      else if (IsKernel(start) != IsKernel(end)) refused = Rule::kRangeCrossing;
      else if (end < start) refused = Rule::kRangeBackward;
      else if (end - start > kMaxRange) refused = Rule::kRangeTooLong;
      else straight = true;
      if (!straight) ++(*counts)[refused];
      out->straight.push_back(straight);
    }
    gap = false;
    out->entries.push_back(entry);
    out->entries.back().info &= BranchEntry::kInfoMask;
  }
}

}  // namespace brink::report
