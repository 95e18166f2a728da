#include "pipeline/pool.h"

#include "base/check.h"

namespace brink {

BufferPool::BufferPool(size_t count, size_t size) : count_(count), size_(size) {
  BRINK_CHECK(count >= 2);
  MutexLock lock(mutex_);
  for (size_t i = 0; i < count; ++i) clean_.push_back(std::make_unique<Buffer>(size));
}

std::unique_ptr<Buffer> BufferPool::TakeClean(size_t reserve) {
  MutexLock lock(mutex_);
  if (clean_.size() <= reserve) return nullptr;
  // The one used last is the one still in the cache.
  std::unique_ptr<Buffer> buffer = std::move(clean_.back());
  clean_.pop_back();
  return buffer;
}

std::unique_ptr<Buffer> BufferPool::WaitClean() {
  MutexLock lock(mutex_);
  while (clean_.empty()) clean_added_.Wait(mutex_);
  std::unique_ptr<Buffer> buffer = std::move(clean_.back());
  clean_.pop_back();
  return buffer;
}

void BufferPool::PutClean(std::unique_ptr<Buffer> buffer) {
  buffer->Clear();
  {
    MutexLock lock(mutex_);
    clean_.push_back(std::move(buffer));
    BRINK_CHECK(clean_.size() <= count_);
  }
  clean_added_.NotifyOne();
}

void BufferPool::PutDirty(std::unique_ptr<Buffer> buffer) {
  {
    MutexLock lock(mutex_);
    dirty_.push_back({std::move(buffer), Control::kNone});
    most_dirty_ = std::max(most_dirty_, ++dirty_buffers_);
  }
  dirty_added_.NotifyOne();
}

void BufferPool::PutControl(Control control) {
  {
    MutexLock lock(mutex_);
    // A word that stands at the end already says the same: repeated signals cannot make the queue grow.
    if (!dirty_.empty() && dirty_.back().control == control && control != Control::kStop) return;
    dirty_.push_back({nullptr, control});
  }
  dirty_added_.NotifyOne();
}

Parcel BufferPool::TakeDirty() {
  MutexLock lock(mutex_);
  while (dirty_.empty()) dirty_added_.Wait(mutex_);
  Parcel message = std::move(dirty_.front());
  dirty_.pop_front();
  if (message.buffer) --dirty_buffers_;
  return message;
}

size_t BufferPool::most_dirty() const {
  MutexLock lock(mutex_);
  return most_dirty_;
}

}  // namespace brink
