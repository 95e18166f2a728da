#include "pipeline/perf_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace brink {

StatusOr<std::unique_ptr<PerfRing>> PerfRing::Map(UniqueFd event, size_t pages) {
  std::unique_ptr<PerfRing> ring(new PerfRing);
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ring->data_size_ = pages * page;
  ring->mapped_ = ring->data_size_ + page;
  void* at = mmap(nullptr, ring->mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(), 0);
  if (at == MAP_FAILED) {
    ring->mapped_ = 0;
    return ErrnoError(errno, "map a perf ring of " + std::to_string(pages) +
                                 " pages (kernel.perf_event_mlock_kb and CAP_IPC_LOCK limit them)");
  }
  ring->page_ = static_cast<perf_event_mmap_page*>(at);
  ring->data_ = static_cast<const std::byte*>(at) + page;
  ring->event_ = std::move(event);
  return ring;
}

PerfRing::~PerfRing() {
  if (mapped_) munmap(page_, mapped_);
}

uint64_t PerfRing::DroppedUnsaid() const {
  uint64_t values[2] = {};  // value, lost
  if (read(event_.get(), values, sizeof(values)) != static_cast<ssize_t>(sizeof(values))) return 0;
  return values[1] > said_ ? values[1] - said_ : 0;
}

void PerfRing::Copy(uint64_t at, void* out, size_t size) const {
  size_t offset = at & (data_size_ - 1);
  size_t first = std::min(size, data_size_ - offset);
  std::memcpy(out, data_ + offset, first);
  std::memcpy(static_cast<std::byte*>(out) + first, data_, size - first);
}

std::span<const std::byte> PerfRing::View(uint64_t at, size_t size) {
  size_t offset = at & (data_size_ - 1);
  if (offset + size <= data_size_) return {data_ + offset, size};
  wrapped_.resize(size);
  Copy(at, wrapped_.data(), size);
  return wrapped_;
}

}  // namespace brink
