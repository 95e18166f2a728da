// Puts records into the order of their times by perf's rule of rounds.
//
// A FINISHED_ROUND says that every ring has been drained once more. A record of a later round can be older than one of
// this round, but not older than the newest one of the round before: so at the end of a round all records up to that
// time are ripe. Records of equal time keep the order of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "perfdata/stream.h"

namespace brink::perfdata {

struct QueuedRecord {
  uint64_t time;
  RawRecord raw;
  int event;
};

class OrderQueue {
 public:
  // Takes a reference on the record's chunk; Pop hands it over.
  void Push(const QueuedRecord& record);
  // `drained_to`: the time up to which the file says that all rings are drained; 0 when it does not.
  void FinishRound(uint64_t drained_to);
  // Everything queued is ripe.
  void FinishAll();
  // The older half is ripe: for recordings without rounds, when memory is to stay bounded.
  void FinishHalf();

  bool HasRipe() const { return next_ < ripe_; }
  const QueuedRecord& Pop() { return queue_[next_++]; }
  bool empty() const { return next_ == queue_.size(); }
  // Records that were older than one already handed out.
  uint64_t late() const { return late_; }

 private:
  void RipenUpTo(uint64_t time);
  void Sort();
  void Compact();

  std::vector<QueuedRecord> queue_;  // [next_, ripe_) ripe and sorted, then the others
  size_t next_ = 0, ripe_ = 0;
  uint64_t max_time_ = 0;       // of all pushed
  uint64_t round_limit_ = 0;    // newest of the round before
  uint64_t handed_out_ = 0;     // newest that became ripe
  uint64_t late_ = 0;
  bool sorted_ = true;
};

}  // namespace brink::perfdata
