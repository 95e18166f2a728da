#include "pipeline/bpf_ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace brink {

StatusOr<std::unique_ptr<BpfRing>> BpfRing::Map(int fd, size_t size) {
  std::unique_ptr<BpfRing> ring(new BpfRing);
  ring->page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ring->size_ = size;
  ring->mapped_ = true;
  void* consumer = mmap(nullptr, ring->page_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (consumer == MAP_FAILED) return ErrnoError(errno, "map the BPF ring's consumer page");
  ring->consumer_ = static_cast<std::byte*>(consumer);
  // The kernel maps the data twice in a row, so records that wrap are contiguous here.
  void* producer = mmap(nullptr, ring->page_ + 2 * size, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(ring->page_));
  if (producer == MAP_FAILED) return ErrnoError(errno, "map the BPF ring's data");
  ring->producer_ = static_cast<std::byte*>(producer);
  return ring;
}

BpfRing::~BpfRing() {
  if (!mapped_) return;
  if (consumer_) munmap(consumer_, page_);
  if (producer_) munmap(producer_, page_ + 2 * size_);
}

}  // namespace brink
