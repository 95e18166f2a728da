#include "ptrace/ring.h"

#include <cerrno>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "base/check.h"

namespace brink::ptrace {
namespace {

constexpr size_t kHeaderBytes = (sizeof(RingHeader) + 4095) / 4096 * 4096;
// Largest record: a whole stack and a whole chain.
constexpr size_t kMaxRecord =
    sizeof(brink_sample) + BRINK_MAX_WALK_BRANCHES * sizeof(brink_branch) + BRINK_MAX_CHAIN * sizeof(uint64_t);

}  // namespace

StatusOr<std::unique_ptr<SharedRing>> SharedRing::Create(size_t size) {
  if (size < (64u << 10) || (size & (size - 1)) != 0) return InvalidArgument("ring size must be a power of two >= 64K");
  size_t mapped = kHeaderBytes + size;
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrnoError(errno, "cannot map the record ring");
  auto* header = new (memory) RingHeader{};
  header->magic = kMagic;
  header->version = kVersion;
  header->size = size;
  return std::unique_ptr<SharedRing>(new SharedRing(header, mapped));
}

SharedRing::SharedRing(RingHeader* header, size_t mapped)
    : header_(header), data_(reinterpret_cast<uint8_t*>(header) + kHeaderBytes), mapped_(mapped),
      scratch_(new uint64_t[kMaxRecord / sizeof(uint64_t)]) {}

SharedRing::~SharedRing() { ::munmap(header_, mapped_); }

size_t SharedRing::used() const {
  return header_->head.load(std::memory_order_acquire) - header_->tail.load(std::memory_order_acquire);
}

void SharedRing::CopyIn(uint64_t at, const uint8_t* from, size_t bytes) {
  size_t offset = at & (header_->size - 1);
  size_t first = std::min<size_t>(bytes, header_->size - offset);
  std::memcpy(data_ + offset, from, first);
  std::memcpy(data_, from + first, bytes - first);
}

bool SharedRing::Write(std::span<const std::span<const uint8_t>> pieces) {
  size_t total = 0;
  for (auto piece : pieces) total += piece.size();
  BRINK_CHECK(total % 8 == 0 && total <= kMaxRecord);
  uint64_t head = header_->head.load(std::memory_order_relaxed);
  // Acquire pairs with the reader's release of tail: its copy out is done before these bytes are overwritten.
  if (head + total - header_->tail.load(std::memory_order_acquire) > header_->size) return false;
  uint64_t at = head;
  for (auto piece : pieces) {
    CopyIn(at, piece.data(), piece.size());
    at += piece.size();
  }
  header_->head.store(at, std::memory_order_release);
  return true;
}

StatusOr<size_t> SharedRing::Drain(const Take& take) {
  size_t count = 0;
  uint64_t tail = header_->tail.load(std::memory_order_relaxed);
  uint64_t head = header_->head.load(std::memory_order_acquire);
  while (tail != head) {
    size_t offset = tail & (header_->size - 1);
    brink_rec_header start;
    std::memcpy(&start, data_ + offset, sizeof start);  // 8-byte aligned: never wraps
    if (start.size < sizeof start || start.size % 8 != 0 || start.size > std::min<uint64_t>(kMaxRecord, head - tail)) {
      return DataLoss("the ptrace helper's ring holds no valid record");
    }
    const uint8_t* record = data_ + offset;
    if (offset + start.size > header_->size) {
      size_t first = header_->size - offset;
      auto* whole = reinterpret_cast<uint8_t*>(scratch_.get());
      std::memcpy(whole, record, first);
      std::memcpy(whole + first, data_, start.size - first);
      record = whole;
    }
    take(*reinterpret_cast<const brink_rec_header*>(record));
    tail += start.size;
    header_->tail.store(tail, std::memory_order_release);
    ++count;
  }
  return count;
}

}  // namespace brink::ptrace
