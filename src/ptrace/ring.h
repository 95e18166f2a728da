// One-way ring of records between the helper (writer) and the collector (reader), in memory that both share.
//
// Bounded: a record that does not fit is counted and dropped by the writer, whole. One writer thread, one reader
// thread, in two processes; either may die at any time: a record is visible only when it is complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "brink/abi/event.h"
#include "ptrace/counters.h"

namespace brink::ptrace {

// At the start of the shared memory; the data follows.
struct RingHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t size;                            // of the data, a power of two
  alignas(64) std::atomic<uint64_t> head;   // bytes written, ever
  alignas(64) std::atomic<uint64_t> tail;   // bytes read, ever
  alignas(64) std::atomic<uint64_t> counters[kCounterCount];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class SharedRing {
 public:
  static constexpr uint32_t kMagic = 0x6b6e7262;
  static constexpr uint32_t kVersion = 1;

  // `size` of the data in bytes, a power of two of at least 64 KiB. The memory is shared with children forked later.
  static StatusOr<std::unique_ptr<SharedRing>> Create(size_t size);
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  // Writer. One record from its pieces, in order; the first piece starts with a brink_rec_header whose size is the
  // sum of all, a multiple of 8. False: no room; nothing was written and nothing counted.
  bool Write(std::span<const std::span<const uint8_t>> pieces);
  void Count(uint32_t counter, uint64_t by = 1) {
    header_->counters[counter].fetch_add(by, std::memory_order_relaxed);
  }

  // Reader. Calls `take` for every complete record, oldest first; the record is valid during the call only. Returns
  // how many there were; DATA_LOSS where the content cannot be what a writer of this version left.
  using Take = std::function<void(const brink_rec_header& record)>;
  StatusOr<size_t> Drain(const Take& take);

  // Either side.
  uint64_t counter(uint32_t which) const { return header_->counters[which].load(std::memory_order_relaxed); }
  size_t used() const;
  size_t size() const { return header_->size; }

 private:
  explicit SharedRing(RingHeader* header, size_t mapped);
  void CopyIn(uint64_t at, const uint8_t* from, size_t bytes);

  RingHeader* header_;
  uint8_t* data_;
  size_t mapped_;
  std::unique_ptr<uint64_t[]> scratch_;  // reader: a record that wraps around the end
};

}  // namespace brink::ptrace
