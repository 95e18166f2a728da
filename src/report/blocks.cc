#include "report/blocks.h"

#include <algorithm>

namespace brink::report {

uint64_t Coverage::Points::Sum(uint64_t offset, bool inclusive) const {
  auto above = inclusive ? std::upper_bound(at.begin(), at.end(), offset) : std::lower_bound(at.begin(), at.end(), offset);
  return above == at.begin() ? 0 : up_to[static_cast<size_t>(above - at.begin()) - 1];
}

Coverage::Coverage(std::span<const RangeStat> ranges) {
  absl::flat_hash_map<symbol::ObjectId, std::pair<std::map<uint64_t, uint64_t>, std::map<uint64_t, uint64_t>>> sums;
  for (const RangeStat& range : ranges) {
    sums[range.start.object].first[range.start.offset] += range.count;
    sums[range.start.object].second[range.end] += range.count;
  }
  auto pack = [](const std::map<uint64_t, uint64_t>& from, Points* to) {
    uint64_t total = 0;
    for (auto [at, count] : from) {
      to->at.push_back(at);
      to->up_to.push_back(total += count);
    }
  };
  for (auto& [object, both] : sums) {
    pack(both.first, &objects_[object].first);
    pack(both.second, &objects_[object].second);
  }
}

uint64_t Coverage::Passing(const Location& at) const {
  auto found = objects_.find(at.object);
  if (found == objects_.end()) return 0;
  return found->second.first.Sum(at.offset, true) - found->second.second.Sum(at.offset, true);
}

uint64_t Coverage::Covering(const Location& at) const {
  auto found = objects_.find(at.object);
  if (found == objects_.end()) return 0;
  return found->second.first.Sum(at.offset, true) - found->second.second.Sum(at.offset, false);
}

std::vector<BlockStat> CutBlocks(std::span<const RangeStat> ranges) {
  std::map<symbol::ObjectId, std::vector<const RangeStat*>> by_object;
  for (const RangeStat& range : ranges) by_object[range.start.object].push_back(&range);
  Coverage coverage(ranges);
  std::vector<BlockStat> blocks;
  for (auto& [object, list] : by_object) {
    std::vector<uint64_t> starts, ends;
    for (const RangeStat* range : list) {
      starts.push_back(range->start.offset);
      ends.push_back(range->end);
    }
    for (auto* points : {&starts, &ends}) {
      std::sort(points->begin(), points->end());
      points->erase(std::unique(points->begin(), points->end()), points->end());
    }
    size_t first = blocks.size();
    for (size_t i = 0; i < starts.size(); ++i) {
      // To the first branch that ends a range here, or up to the next entry.
      auto end = std::lower_bound(ends.begin(), ends.end(), starts[i]);
      uint64_t last = end == ends.end() ? starts[i] : *end;
      if (i + 1 < starts.size()) last = std::min(last, starts[i + 1] - 1);
      Location start{object, starts[i]};
      blocks.push_back({.start = start, .end = std::max(last, starts[i]), .count = coverage.Covering(start)});
    }
    for (const RangeStat* range : list) {
      if (!range->cycle_count) continue;
      double per_byte = static_cast<double>(range->cycles) / static_cast<double>(range->end - range->start.offset + 1);
      auto at = std::lower_bound(blocks.begin() + static_cast<std::ptrdiff_t>(first), blocks.end(), range->start.offset,
                                 [](const BlockStat& block, uint64_t offset) { return block.start.offset < offset; });
      for (; at != blocks.end() && at->start.offset <= range->end; ++at) {
        at->cycles += per_byte * static_cast<double>(std::min(at->end, range->end) - at->start.offset + 1);
        at->cycle_count += range->cycle_count;
      }
    }
  }
  return blocks;
}

}  // namespace brink::report
