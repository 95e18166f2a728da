// Samples by thread, and the names of threads, for the report: in bounded memory, however many threads come and go.
//
// Of threads that have ended those with the most samples are kept, 1,024 of them or somewhat more; the rest become one
// sum. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

namespace brink {

struct ThreadCount {
  uint32_t pid = 0, tid = 0;
  uint64_t samples = 0, branches = 0;
  std::string comm;
};

struct ThreadCounts {
  std::vector<ThreadCount> threads;  // with at least one sample; most samples first
  uint64_t other_samples = 0;        // of threads that are not among them
  uint64_t other_threads = 0;        // how many of these were known apart once
  uint64_t samples = 0, branches = 0;
};

class ThreadTally {
 public:
  static constexpr size_t kMost = 16384, kMostEnded = 1024;

  void Name(uint32_t pid, uint32_t tid, std::string_view comm);
  void Sample(uint32_t pid, uint32_t tid, uint64_t branches);
  // Samples of the thread may still come: they are at most as late as 1,024 ends of other threads.
  void End(uint32_t pid, uint32_t tid);

  ThreadCounts Take() const;
  size_t size() const { return cells_.size(); }

 private:
  struct Cell {
    uint64_t samples = 0, branches = 0;
    std::string comm;
    bool ended = false;
  };

  void Settle(uint64_t key);
  void FoldEnded();

  absl::flat_hash_map<uint64_t, Cell> cells_;  // pid << 32 | tid
  std::deque<uint64_t> late_;                  // the last that ended
  size_t ended_ = 0;                           // cells that are marked so
  uint64_t other_samples_ = 0, other_threads_ = 0, samples_ = 0, branches_ = 0;
};

}  // namespace brink
