#include "report/paths.h"

#include <cstring>

namespace brink::report {

void PathFinder::OnStack(const SampleView& sample, const CleanStack& stack) {
  if (!sample.meta.contiguous || sample.meta.call_stack || stack.entries.size() < length_ || length_ == 0) return;
  std::string ids;  // oldest first
  for (size_t i = stack.entries.size(); i-- > 0;) {
    std::pair<Location, Location> branch{spaces_.Normalise(sample.pid, stack.entries[i].from), spaces_.Normalise(sample.pid, stack.entries[i].to)};
    auto [it, fresh] = ids_.try_emplace(branch, static_cast<uint32_t>(branches_.size()));
    if (fresh) branches_.push_back(branch);
    ids.append(reinterpret_cast<const char*>(&it->second), sizeof(uint32_t));
  }
  const size_t count = stack.entries.size();
  for (size_t first = 0; first + length_ <= count; ++first) {
    // ids[first] is entries[count - 1 - first].
    bool whole = true;
    uint64_t cycles = 0, known = 0;
    for (size_t j = 1; j < length_; ++j) {
      size_t newer = count - 1 - first - j;
      whole = whole && stack.straight[newer];
      uint32_t one = stack.entries[newer].cycles();
      cycles += one;
      known += one != 0;
    }
    if (!whole) continue;
    if (cells_.size() >= kMaxPaths) {
      absl::erase_if(cells_, [&](const auto& cell) {
        bool rare = cell.second.count <= 1;
        dropped_ += rare;
        return rare;
      });
      if (cells_.size() >= kMaxPaths) {
        ++dropped_;
        continue;
      }
    }
    Cell& cell = cells_[ids.substr(first * sizeof(uint32_t), length_ * sizeof(uint32_t))];
    ++cell.count;
    ++windows_;
    if (known == length_ - 1 && known > 0) {
      cell.cycles += cycles;
      ++cell.cycle_count;
    }
  }
}

std::vector<PathStat> PathFinder::Take() {
  std::vector<PathStat> paths;
  paths.reserve(cells_.size());
  for (const auto& [key, cell] : cells_) {
    PathStat path{.count = cell.count, .cycles = cell.cycles, .cycle_count = cell.cycle_count};
    for (size_t i = 0; i < length_; ++i) {
      uint32_t id;
      std::memcpy(&id, key.data() + i * sizeof id, sizeof id);
      path.branches.push_back(branches_[id]);
    }
    paths.push_back(std::move(path));
  }
  cells_.clear();
  return paths;
}

}  // namespace brink::report
