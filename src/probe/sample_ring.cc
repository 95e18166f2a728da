#include "probe/sample_ring.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace brink::probe {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDataPages = 32;
size_t PageSize() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}
size_t DataSize() { return kDataPages * kPage > PageSize() ? kDataPages * kPage : PageSize(); }

}  // namespace

StatusOr<SampleRing> SampleRing::Open(perf_event_attr attr) {
  SampleRing ring;
  ring.branches_ = attr.branch_sample_type != 0;
  ring.hw_index_ = attr.branch_sample_type & kBranchHwIndex;
  attr.sample_type = PERF_SAMPLE_IP | (ring.branches_ ? uint64_t{PERF_SAMPLE_BRANCH_STACK} : 0);
  attr.disabled = 1;
  int fd = RawPerfEventOpen(attr, {.pid = 0});
  if (fd < 0) return ErrnoError(-fd, "perf_event_open");
  ring.fd_.Reset(fd);
  void* base = ::mmap(nullptr, PageSize() + DataSize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return ErrnoError(errno, "mmap of a perf ring");
  ring.base_ = static_cast<char*>(base);
  return ring;
}

SampleRing::SampleRing(SampleRing&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)), branches_(other.branches_), hw_index_(other.hw_index_) {}

SampleRing::~SampleRing() {
  if (base_) ::munmap(base_, PageSize() + DataSize());
}

int SampleRing::Drain(const OnSample& on_sample) {
  auto* meta = reinterpret_cast<perf_event_mmap_page*>(base_);
  // Pairs with the kernel's barrier before it moves data_head (perf_output_put_handle).
  uint64_t head = __atomic_load_n(&meta->data_head, __ATOMIC_ACQUIRE), tail = meta->data_tail, size = DataSize();
  int samples = 0;
  std::vector<char> record;
  while (head - tail >= sizeof(perf_event_header)) {
    auto copy = [&](uint64_t at, void* to, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = base_[PageSize() + (at + i) % size];
    };
    perf_event_header header;
    copy(tail, &header, sizeof header);
    if (header.size < sizeof header || header.size > head - tail) break;
    record.resize(header.size);
    copy(tail, record.data(), header.size);
    tail += header.size;
    if (header.type != PERF_RECORD_SAMPLE) continue;
    ++samples;
    uint64_t words[2] = {};
    size_t at = sizeof header, have = record.size();
    if (have < at + 8) continue;
    std::memcpy(&words[0], &record[at], 8);
    at += 8;
    std::vector<BranchEntry> stack;
    if (branches_ && have >= at + 8) {
      std::memcpy(&words[1], &record[at], 8);
      // The index word is missing when nr is 0 and the PMU gave no stack: the record's size tells.
      at += words[1] && hw_index_ ? 16 : 8;
      stack.resize(std::min<uint64_t>(words[1], (have - at) / sizeof(BranchEntry)));
      if (!stack.empty()) std::memcpy(stack.data(), &record[at], stack.size() * sizeof(BranchEntry));
    }
    on_sample(words[0], stack);
  }
  __atomic_store_n(&meta->data_tail, tail, __ATOMIC_RELEASE);
  return samples;
}

}  // namespace brink::probe
