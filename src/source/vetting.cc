#include "source/vetting.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "base/strings.h"

namespace brink {
namespace {

using Range = brink_walk_range;

// Joins neighbours until `ranges` fits. A joined range is of the stricter kind.
void JoinSmallestGaps(std::vector<Range>* ranges) {
  std::sort(ranges->begin(), ranges->end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  auto join = [&](size_t i) {
    Range& left = (*ranges)[i];
    const Range& right = (*ranges)[i + 1];
    left.end = std::max(left.end, right.end);
    if (right.kind == BRINK_RANGE_DEVICE) left.kind = BRINK_RANGE_DEVICE;
    ranges->erase(ranges->begin() + static_cast<std::ptrdiff_t>(i) + 1);
  };
  for (size_t i = 0; i + 1 < ranges->size();) {
    bool touching = (*ranges)[i].end == (*ranges)[i + 1].start && (*ranges)[i].kind == (*ranges)[i + 1].kind;
    if (touching) join(i);
    else ++i;
  }
  while (ranges->size() > BRINK_WALK_RANGES - 1) {  // the walker adds the thread's restartable-sequence area
    size_t best = 0;
    for (size_t i = 0; i + 1 < ranges->size(); ++i) {
      uint64_t gap = (*ranges)[i + 1].start - (*ranges)[i].end;
      if (gap < (*ranges)[best + 1].start - (*ranges)[best].end) best = i;
    }
    join(best);
  }
}

}  // namespace

Verdict Judge(std::span<const VmArea> areas, const SegmentScanner::Answer& segments, const VettingOptions& options) {
  Verdict verdict;
  std::vector<Range> ranges;
  for (const VmArea& area : areas) {
    if (area.kernel_written()) {
      ranges.push_back({.start = area.start, .end = area.end, .kind = BRINK_RANGE_UNKNOWN, .reserved = 0});
    } else if (area.device()) {
      ranges.push_back({.start = area.start, .end = area.end, .kind = BRINK_RANGE_DEVICE, .reserved = 0});
      if (!options.allow_device && verdict.note.empty()) {
        verdict.proc.flags |= BRINK_PROC_REFUSED;
        verdict.note = "maps device memory (" + EscapeForTerminal(area.path) + "); --allow-device walks it without reading there";
      }
    }
  }
  if (!segments.writes) {
    verdict.proc.flags |= BRINK_PROC_FSBASE;
  } else if (verdict.note.empty()) {
    verdict.note = std::string(segments.unreadable ? "code that could not be read" : "WRFSBASE or WRGSBASE") + " in " +
                   EscapeForTerminal(segments.where) + ": segment bases are unknown";
  }
  JoinSmallestGaps(&ranges);
  verdict.proc.nr_ranges = static_cast<uint32_t>(ranges.size());
  std::copy(ranges.begin(), ranges.end(), verdict.proc.range);
  return verdict;
}

}  // namespace brink
