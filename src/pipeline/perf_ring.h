// Reader of one perf event's ring (the side-band of one CPU).
#pragma once

#include <linux/perf_event.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace brink {

class PerfRing {
 public:
  // Takes the event over and maps `pages` (a power of two) of data.
  static StatusOr<std::unique_ptr<PerfRing>> Map(UniqueFd event, size_t pages);
  ~PerfRing();
  PerfRing(const PerfRing&) = delete;
  PerfRing& operator=(const PerfRing&) = delete;

  int fd() const { return event_.get(); }

  // The last Drain took more than half of the ring: records may have been dropped.
  bool crowded() const { return crowded_; }
  // Records the kernel dropped without having said so: its PERF_RECORD_LOST comes with the next record of this ring,
  // which may be never. Wants an event with PERF_FORMAT_LOST; 0 where the kernel does not tell.
  uint64_t DroppedUnsaid() const;

  // Calls fn(record) for each record that was in the ring at the call. Returns false when the ring's chain of sizes is
  // broken; its content is dropped then.
  template <typename Fn>
  bool Drain(Fn fn) {
    const uint64_t head = Page().load(std::memory_order_acquire);  // pairs with perf_output_put_handle's smp_wmb
    uint64_t tail = page_->data_tail;
    bool sound = true;
    crowded_ = head - tail > data_size_ / 2;
    while (tail < head) {
      perf_event_header header;
      Copy(tail, &header, sizeof(header));
      if (header.size < sizeof(header) || header.size > head - tail) {
        sound = false;
        break;
      }
      std::span<const std::byte> record = View(tail, header.size);
      if (header.type == PERF_RECORD_LOST && record.size() >= 24) {
        uint64_t lost;
        std::memcpy(&lost, record.data() + 16, sizeof(lost));
        said_ += lost;
      }
      fn(record);
      tail += header.size;
    }
    // Pairs with the kernel's read of data_tail before it writes into the space.
    std::atomic_ref<__u64>(page_->data_tail).store(head, std::memory_order_release);
    return sound;
  }

 private:
  PerfRing() = default;
  std::atomic_ref<__u64> Page() const { return std::atomic_ref<__u64>(page_->data_head); }
  void Copy(uint64_t at, void* out, size_t size) const;
  // The record in one piece; a copy where it wraps, valid until the next call.
  std::span<const std::byte> View(uint64_t at, size_t size);

  UniqueFd event_;
  perf_event_mmap_page* page_ = nullptr;
  const std::byte* data_ = nullptr;
  size_t data_size_ = 0, mapped_ = 0;
  bool crowded_ = false;
  uint64_t said_ = 0;
  std::vector<std::byte> wrapped_;
};

}  // namespace brink
