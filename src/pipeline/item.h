// What lies in a pipeline buffer: items one after another, each led by the ABI's record header, 8-byte aligned.
//
// Records of the BPF ring are copied as they are. Records of the perf rings, round marks and losses are wrapped in item
// types of their own, numbered above the ABI's. Nothing here owns memory: views point into a buffer and end with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/branch.h"
#include "brink/abi/event.h"

namespace brink {

enum ItemType : uint16_t {
  kItemPerfRecord = 0x100,  // a kernel (or synthesised) perf record with its sample id trailer
  kItemRound = 0x101,       // all rings are drained up to a time
  kItemLost = 0x102,        // samples or side-band records that will never come
};

// Causes of loss outside of and inside BPF; the names are those of the final report.
enum class LossCause : uint8_t {
  kRingFull,        // BPF ring had no room
  kRingContended,   // BPF ring's lock not had
  kNoBuffer,        // no clean buffer: the drain emptied the ring without a place to put it
  kWriter,          // the consumer failed or had stopped (disk full, pipe closed)
  kThrottled,       // our own budget
  kSkipped,         // the program was not run or gave up (nesting)
  kLate,            // deferred to the thread's return to user space, and too late there
  kSideBand,        // side-band records: ring overflow
  kSideBandBuffer,  // side-band records: no clean buffer
  kMalformed,       // a record whose sizes contradict each other
  kCount,
};
const char* LossCauseName(LossCause cause);
// Whether what was lost are samples (else side-band records).
constexpr bool IsSampleLoss(LossCause cause) { return cause != LossCause::kSideBand && cause != LossCause::kSideBandBuffer; }

struct Loss {
  uint64_t records = 0;
  uint64_t bytes = 0;  // 0 where the kernel tells records only
  Loss& operator+=(const Loss& other) {
    records += other.records;
    bytes += other.bytes;
    return *this;
  }
  friend bool operator==(const Loss&, const Loss&) = default;
};

struct RoundItem {
  brink_rec_header header;
  uint64_t time_ns;  // every record with an earlier time has come out before this item
};

struct LostItem {
  brink_rec_header header;
  uint64_t time_ns;
  uint64_t records;
  uint64_t bytes;
  uint64_t cause;  // LossCause
};

// A sample with its entries (newest first) and call chain (perf form, leaf first).
struct SampleView {
  const brink_sample* head = nullptr;
  std::span<const BranchEntry> branches;
  std::span<const uint64_t> chain;
};
// Nothing when the counts do not fit into the record's size.
std::optional<SampleView> ViewSample(std::span<const std::byte> record);

// Trailer of every side-band record: fields TID, TIME, CPU, IDENTIFIER of sample_id_all, in this order.
struct SideBandId {
  uint32_t pid, tid;
  uint64_t time_ns;
  uint32_t cpu, reserved;
  uint64_t id;
};
static_assert(sizeof(SideBandId) == 32);

// A perf record without its trailer, and the trailer.
struct PerfRecordView {
  std::span<const std::byte> record;  // with its perf_event_header, whose size still counts the trailer
  SideBandId id;
};
std::optional<PerfRecordView> ViewPerfRecord(std::span<const std::byte> item);

// Calls fn(header, whole item) for each item. False when the chain of sizes is broken.
template <typename Fn>
bool ForEachItem(std::span<const std::byte> bytes, Fn fn) {
  while (!bytes.empty()) {
    brink_rec_header header;
    if (bytes.size() < sizeof(header)) return false;
    std::memcpy(&header, bytes.data(), sizeof(header));
    size_t padded = (size_t{header.size} + 7) & ~size_t{7};
    if (header.size < sizeof(header) || padded > bytes.size()) return false;
    fn(header, bytes.first(header.size));
    bytes = bytes.subspan(padded);
  }
  return true;
}

}  // namespace brink
