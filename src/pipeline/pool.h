// N fixed-size buffers that circulate: clean queue -> drain -> dirty queue -> writer -> clean queue. Each is in exactly
// one place. Control words (flush, rotate, stop) travel through the dirty queue, so they come after the data that was
// handed over before them.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/sync.h"

namespace brink {

class Buffer {
 public:
  explicit Buffer(size_t capacity) : data_(new std::byte[capacity]), capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  size_t used() const { return used_; }
  std::span<const std::byte> bytes() const { return {data_.get(), used_}; }
  void Clear() { used_ = 0; }
  // Room for `size` bytes, or nullptr when the buffer has not that much left. Contents are the caller's to write.
  std::byte* Append(size_t size) {
    if (size > capacity_ - used_) return nullptr;
    std::byte* at = data_.get() + used_;
    used_ += size;
    return at;
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t capacity_;
  size_t used_ = 0;
};

enum class Control { kNone, kFlush, kRotate, kStop };

// One word of the dirty queue: a buffer or a control word.
struct Parcel {
  std::unique_ptr<Buffer> buffer;
  Control control = Control::kNone;
};

// All threads. The drain never waits for a buffer.
class BufferPool {
 public:
  // `count` >= 2 buffers of `size` bytes each are made now.
  BufferPool(size_t count, size_t size);

  // nullptr: no more than `reserve` are clean. The last buffer is kept for records that matter more than samples.
  std::unique_ptr<Buffer> TakeClean(size_t reserve = 0);
  // Waits for one: only where nothing is being drained.
  std::unique_ptr<Buffer> WaitClean();
  void PutClean(std::unique_ptr<Buffer> buffer);
  void PutDirty(std::unique_ptr<Buffer> buffer);
  void PutControl(Control control);
  // Waits for the next word.
  Parcel TakeDirty();

  size_t count() const { return count_; }
  size_t buffer_size() const { return size_; }
  // Most buffers that were dirty at once: how near the pool came to running out.
  size_t most_dirty() const;

 private:
  const size_t count_, size_;
  mutable Mutex mutex_;
  CondVar dirty_added_, clean_added_;
  std::vector<std::unique_ptr<Buffer>> clean_ ABSL_GUARDED_BY(mutex_);
  std::deque<Parcel> dirty_ ABSL_GUARDED_BY(mutex_);
  size_t dirty_buffers_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_dirty_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace brink
