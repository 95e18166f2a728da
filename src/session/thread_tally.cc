#include "session/thread_tally.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace brink {

namespace {

constexpr size_t kLate = 1024;

uint64_t Key(uint32_t pid, uint32_t tid) { return uint64_t{pid} << 32 | tid; }

}  // namespace

void ThreadTally::Name(uint32_t pid, uint32_t tid, std::string_view comm) {
  auto it = cells_.find(Key(pid, tid));
  if (it == cells_.end()) {
    if (cells_.size() >= kMost) return;
    it = cells_.try_emplace(Key(pid, tid)).first;
  }
  it->second.comm = comm;
  // Alive: a new thread may have the number of one that ended, or is about to be taken for ended.
  std::erase(late_, Key(pid, tid));
  ended_ -= std::exchange(it->second.ended, false);
}

void ThreadTally::Sample(uint32_t pid, uint32_t tid, uint64_t branches) {
  ++samples_;
  branches_ += branches;
  auto it = cells_.find(Key(pid, tid));
  if (it == cells_.end()) {
    if (cells_.size() >= kMost) FoldEnded();
    if (cells_.size() >= kMost) {
      ++other_samples_;
      return;
    }
    it = cells_.try_emplace(Key(pid, tid)).first;
  }
  ++it->second.samples;
  it->second.branches += branches;
}

void ThreadTally::End(uint32_t pid, uint32_t tid) {
  late_.push_back(Key(pid, tid));
  if (late_.size() <= kLate) return;
  Settle(late_.front());
  late_.pop_front();
}

void ThreadTally::Settle(uint64_t key) {
  auto it = cells_.find(key);
  if (it == cells_.end()) return;
  if (it->second.samples == 0) {
    cells_.erase(it);
    return;
  }
  // Marked already: a second thread that had the number of one that is kept.
  ended_ += !std::exchange(it->second.ended, true);
  if (ended_ >= 2 * kMostEnded) FoldEnded();
}

void ThreadTally::FoldEnded() {
  if (ended_ <= kMostEnded) return;
  std::vector<std::pair<uint64_t, uint64_t>> ended;  // samples, key
  for (const auto& [key, cell] : cells_) {
    if (cell.ended) ended.emplace_back(cell.samples, key);
  }
  std::nth_element(ended.begin(), ended.begin() + kMostEnded, ended.end(), std::greater<>());
  for (size_t i = kMostEnded; i < ended.size(); ++i) {
    other_samples_ += ended[i].first;
    ++other_threads_;
    cells_.erase(ended[i].second);
  }
  ended_ = kMostEnded;
}

ThreadCounts ThreadTally::Take() const {
  ThreadCounts counts = {.threads = {}, .other_samples = other_samples_, .other_threads = other_threads_, .samples = samples_, .branches = branches_};
  for (const auto& [key, cell] : cells_) {
    if (cell.samples) counts.threads.push_back({static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), cell.samples, cell.branches, cell.comm});
  }
  std::sort(counts.threads.begin(), counts.threads.end(), [](auto& a, auto& b) { return a.samples != b.samples ? a.samples > b.samples : a.tid < b.tid; });
  return counts;
}

}  // namespace brink
