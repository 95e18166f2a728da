#include "perfdata/order.h"

#include <algorithm>

namespace brink::perfdata {

void OrderQueue::Push(const QueuedRecord& record) {
  if (next_ == ripe_ && next_ == queue_.size()) Compact();
  ++record.raw.chunk->references;
  if (queue_.size() > ripe_ && record.time < queue_.back().time) sorted_ = false;
  if (record.time < handed_out_) ++late_;
  max_time_ = std::max(max_time_, record.time);
  queue_.push_back(record);
}

void OrderQueue::Compact() {
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(next_));
  ripe_ -= next_;
  next_ = 0;
}

void OrderQueue::Sort() {
  Compact();
  if (!sorted_) {
    std::stable_sort(queue_.begin() + static_cast<std::ptrdiff_t>(ripe_), queue_.end(),
                     [](const QueuedRecord& a, const QueuedRecord& b) { return a.time < b.time; });
  }
  sorted_ = true;
}

void OrderQueue::RipenUpTo(uint64_t time) {
  Sort();
  auto end = std::upper_bound(queue_.begin() + static_cast<std::ptrdiff_t>(ripe_), queue_.end(), time,
                              [](uint64_t t, const QueuedRecord& r) { return t < r.time; });
  ripe_ = static_cast<size_t>(end - queue_.begin());
  if (ripe_ != 0) handed_out_ = std::max(handed_out_, queue_[ripe_ - 1].time);
}

void OrderQueue::FinishRound(uint64_t drained_to) {
  uint64_t limit = std::max(round_limit_, drained_to);
  round_limit_ = max_time_;
  if (limit != 0) RipenUpTo(limit);
}

void OrderQueue::FinishAll() { RipenUpTo(UINT64_MAX); }

void OrderQueue::FinishHalf() {
  Sort();
  if (queue_.size() > ripe_) RipenUpTo(queue_[ripe_ + (queue_.size() - ripe_) / 2].time);
}

}  // namespace brink::perfdata
