// Reader of a BPF ring buffer, mapped directly.
//
// Not libbpf's ring_buffer: its consume goes on for as long as producers keep up, while a round must end at what had
// been produced when it began.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace brink {

class BpfRing {
 public:
  // `fd` of the ring buffer map of `size` bytes (a power of two of pages); stays the caller's.
  static StatusOr<std::unique_ptr<BpfRing>> Map(int fd, size_t size);
  // A ring in memory for tests: `memory` is laid out as the kernel's (consumer page, producer page, data twice).
  BpfRing(std::byte* consumer, std::byte* producer, size_t size) : consumer_(consumer), producer_(producer), size_(size) {}
  ~BpfRing();
  BpfRing(const BpfRing&) = delete;
  BpfRing& operator=(const BpfRing&) = delete;

  // Calls fn(record) for each finished record up to what was produced at the call, and gives the space back in steps.
  // Ends early at a record that its producer has not finished. Returns the count.
  template <typename Fn>
  size_t Drain(Fn fn) {
    uint64_t consumer = LoadConsumer();
    const uint64_t end = LoadProducer();
    size_t count = 0;
    uint64_t returned = consumer;
    while (consumer < end) {
      uint32_t length = LoadLength(consumer);
      if (length & kBusy) break;
      uint32_t bytes = length & ~(kBusy | kDiscard);
      if (!(length & kDiscard)) {
        fn(std::span<const std::byte>(Data(consumer) + kHeader, bytes));
        ++count;
      }
      consumer += (uint64_t{bytes} + kHeader + 7) & ~uint64_t{7};
      // Producers see the room soon, but their cache line is not taken at each record.
      if (consumer - returned >= size_ / 16) StoreConsumer(returned = consumer);
    }
    if (consumer != returned) StoreConsumer(consumer);
    return count;
  }

  uint64_t fill() const { return LoadProducer() - LoadConsumer(); }
  size_t size() const { return size_; }

 private:
  static constexpr uint32_t kBusy = 1u << 31, kDiscard = 1u << 30;
  static constexpr size_t kHeader = 8;

  BpfRing() = default;
  // Pairs with the producers' smp_store_release of the position after their header (kernel/bpf/ringbuf.c).
  uint64_t LoadProducer() const { return reinterpret_cast<const std::atomic<uint64_t>*>(producer_)->load(std::memory_order_acquire); }
  uint64_t LoadConsumer() const { return reinterpret_cast<const std::atomic<uint64_t>*>(consumer_)->load(std::memory_order_relaxed); }
  // The producer reads it with acquire before it overwrites the space.
  void StoreConsumer(uint64_t position) { reinterpret_cast<std::atomic<uint64_t>*>(consumer_)->store(position, std::memory_order_release); }
  // Pairs with bpf_ringbuf_commit's xchg, which clears the busy bit after the data.
  uint32_t LoadLength(uint64_t position) const { return reinterpret_cast<const std::atomic<uint32_t>*>(Data(position))->load(std::memory_order_acquire); }
  const std::byte* Data(uint64_t position) const { return producer_ + page_ + (position & (size_ - 1)); }

  std::byte* consumer_ = nullptr;
  std::byte* producer_ = nullptr;
  size_t size_ = 0;
  size_t page_ = 4096;
  bool mapped_ = false;
};

}  // namespace brink
