#include "pipeline/drain.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/thread.h"

namespace brink {
namespace {

// Rounds at the end until the rings stay empty; in-flight records of other CPUs need one or two.
constexpr int kLastRounds = 3;

// Longest way of a side-band record from its time stamp into its ring: the kernel writes it at once. Must be well below
// max_delay_ns, by which round marks are spaced.
constexpr uint64_t kInFlightNs = 2'000'000;

}  // namespace

uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Drain::Drain(BufferPool& pool, Ledger& ledger, BpfRing* ring, int ring_fd, DrainHandler& handler, const DrainOptions& options)
    : pool_(pool), ledger_(ledger), ring_(ring), ring_fd_(ring_fd), handler_(handler), options_(options) {}

Drain::~Drain() { BRINK_CHECK(!thread_.joinable()); }

Status Drain::Start() {
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return ErrnoError(errno, "eventfd");
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoError(errno, "epoll_create1");
  epoll_event event = {.events = EPOLLIN, .data = {.fd = wake_.get()}};
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return ErrnoError(errno, "epoll_ctl");
  if (ring_) {
    // Edge-triggered: the ring is "readable" with one record in it, and waking for each would cost more than all else.
    event = {.events = EPOLLIN | EPOLLET, .data = {.fd = ring_fd_}};
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, ring_fd_, &event) != 0) return ErrnoError(errno, "epoll_ctl of the BPF ring");
  }
  MutexLock lock(mutex_);
  for (auto& ring : perf_rings_) {
    event = {.events = EPOLLIN | EPOLLET, .data = {.fd = ring->fd()}};
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, ring->fd(), &event) != 0) return ErrnoError(errno, "epoll_ctl of a perf ring");
  }
  epoll_ = std::move(epoll);
  auto thread = StartThread("the thread that drains the rings", [this] { Run(); });
  if (!thread.ok()) {
    epoll_.Reset();  // not started: whoever stops tells the writer instead
    return thread.status();
  }
  thread_ = *std::move(thread);
  return OkStatus();
}

Status Drain::AddPerfRing(std::unique_ptr<PerfRing> ring) {
  MutexLock lock(mutex_);
  if (epoll_.valid()) {
    epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.fd = ring->fd()}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ring->fd(), &event) != 0) return ErrnoError(errno, "epoll_ctl of a perf ring");
  }
  perf_rings_.push_back(std::move(ring));
  return OkStatus();
}

void Drain::RemovePerfRing(int fd) {
  MutexLock lock(mutex_);
  std::erase_if(perf_rings_, [fd](auto& ring) { return ring->fd() == fd; });
}

void Drain::Kick() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof(one));  // full counter: a wake-up is pending
}

void Drain::Request(Control control) {
  {
    MutexLock lock(mutex_);
    if (!requests_.empty() && requests_.back() == control) return;
    requests_.push_back(control);
  }
  Kick();
}

bool Drain::Inject(std::span<const std::byte> record) {
  size_t padded = (record.size() + 7) & ~size_t{7};
  bool kick = false;
  {
    MutexLock lock(mutex_);
    if (stop_ || injected_.size() + padded > options_.inject_limit) {
      ledger_.CountLost(LossCause::kNoBuffer, 1, record.size());
      return false;
    }
    kick = injected_.size() < options_.inject_limit / 4 && injected_.size() + padded >= options_.inject_limit / 4;
    injected_.insert(injected_.end(), record.begin(), record.end());
    injected_.resize((injected_.size() + 7) & ~size_t{7});
  }
  if (kick) Kick();
  return true;
}

void Drain::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  if (!thread_.joinable()) return;
  Kick();
  thread_.join();
}

void Drain::Run() {
  while (true) {
    epoll_event events[8];
    int n = epoll_wait(epoll_.get(), events, 8, static_cast<int>(options_.interval_ns / 1'000'000));
    if (n > 0) {
      uint64_t count;
      [[maybe_unused]] ssize_t got = read(wake_.get(), &count, sizeof(count));
    }
    bool stop;
    std::vector<Control> requests;
    {
      MutexLock lock(mutex_);
      stop = stop_;
      requests.swap(requests_);
    }
    if (std::find(requests.begin(), requests.end(), Control::kRotate) != requests.end()) handler_.OnRotating();
    Round(false);
    for (Control control : requests) {
      HandOver();
      pool_.PutControl(control);
      if (control == Control::kRotate) handler_.OnNewFile(*this);
    }
    if (stop) break;
  }
  for (int i = 0; i < kLastRounds; ++i) Round(i == kLastRounds - 1);
  HandOver();
  pool_.PutControl(Control::kStop);
}

void Drain::Round(bool last) {
  const uint64_t begin = MonotonicNs();
  const uint64_t oldest = std::min(begin, handler_.OldestUnderWay());
  DrainSideBand(last ? UINT64_MAX : begin - kInFlightNs);
  DrainBpf();
  DrainInjected();
  const uint64_t end = MonotonicNs();
  handler_.OnTick(end, last, *this);
  // perf lets go, at a mark, of what is older than the newest record before the mark before. Whatever is still to come
  // is younger than oldest - delay, so that must not lie before the end of the last marked round.
  uint64_t safe = oldest - std::min(oldest, options_.max_delay_ns);
  if (last || (safe >= last_mark_end_ns_ && begin - last_mark_end_ns_ >= options_.interval_ns)) {
    RoundItem item = {{kItemRound, BRINK_ABI_VERSION, sizeof(RoundItem)}, safe};
    if (std::byte* at = Room(sizeof(item))) {
      std::memcpy(at, &item, sizeof(item));
      last_mark_end_ns_ = end;
    }
    HandOver();
  }
}

void Drain::DrainSideBand(uint64_t until_ns) {
  // Copied, so that handlers run without the lock and a ring removed meanwhile lives until the round is over.
  std::vector<std::shared_ptr<PerfRing>> rings;
  {
    MutexLock lock(mutex_);
    rings = perf_rings_;
  }
  for (auto& ring : rings) {
    bool sound = ring->Drain([this](std::span<const std::byte> record) { merge_.Add(record); });
    if (!sound) ledger_.CountLost(LossCause::kSideBand, 1, 0);
    const bool last = until_ns == UINT64_MAX;
    if (!last && !ring->crowded()) continue;
    if (uint64_t dropped = ring->DroppedUnsaid()) handler_.OnSideBandDropped(last ? dropped : 0);
  }
  merge_.Release(until_ns, [this](std::span<const std::byte> record) { handler_.OnSideBand(record, *this); });
}

void Drain::DrainBpf() {
  if (ring_) ring_->Drain([this](std::span<const std::byte> record) { TakeRingRecord(record); });
}

void Drain::DrainInjected() {
  std::vector<std::byte> injected;
  {
    MutexLock lock(mutex_);
    injected.swap(injected_);
  }
  ForEachItem(injected, [this](const brink_rec_header&, std::span<const std::byte> record) { TakeRingRecord(record); });
}

void Drain::TakeRingRecord(std::span<const std::byte> record) {
  brink_rec_header header = {};
  if (record.size() >= sizeof(header)) std::memcpy(&header, record.data(), sizeof(header));
  if (header.size < sizeof(header) || header.size > record.size() || header.version != BRINK_ABI_VERSION) {
    ledger_.CountLost(LossCause::kMalformed, 1, record.size());
    return;
  }
  if (header.type != BRINK_REC_SAMPLE) {
    handler_.OnOtherRecord(record.first(header.size));
    if (header.type != BRINK_REC_TASK) return;
  } else if (header.size >= sizeof(brink_sample)) {
    brink_sample sample;
    std::memcpy(&sample, record.data(), sizeof(sample));
    handler_.OnSample(sample);
  }
  std::byte* at = Room(header.size, header.type == BRINK_REC_SAMPLE);
  if (!at) {
    if (header.type == BRINK_REC_SAMPLE) ledger_.CountLost(LossCause::kNoBuffer, 1, header.size);
    return;
  }
  std::memcpy(at, record.data(), header.size);
}

std::byte* Drain::Room(size_t size, bool sample) {
  size_t padded = (size + 7) & ~size_t{7};
  if (current_ && sample && current_reserved_) {
    std::unique_ptr<Buffer> next = pool_.TakeClean(1);
    if (!next) return nullptr;
    HandOver();
    if (current_) pool_.PutClean(std::move(current_));
    current_ = std::move(next);
    current_reserved_ = false;
  }
  if (current_) {
    if (std::byte* at = current_->Append(padded)) return at;
    HandOver();
  }
  current_ = patient_ ? pool_.WaitClean() : pool_.TakeClean(1);
  current_reserved_ = !current_ && !sample;
  if (current_reserved_) current_ = pool_.TakeClean();
  return current_ ? current_->Append(padded) : nullptr;
}

bool Drain::PutPerfRecord(std::span<const std::byte> record) {
  size_t size = sizeof(brink_rec_header) + record.size();
  std::byte* at = Room(size);
  if (!at) {
    ledger_.CountLost(LossCause::kSideBandBuffer, 1, record.size());
    return false;
  }
  brink_rec_header header = {kItemPerfRecord, BRINK_ABI_VERSION, static_cast<uint32_t>(size)};
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at + sizeof(header), record.data(), record.size());
  return true;
}

void Drain::PutLost(LossCause cause, const Loss& loss, uint64_t time_ns) {
  LostItem item = {{kItemLost, BRINK_ABI_VERSION, sizeof(LostItem)}, time_ns, loss.records, loss.bytes, static_cast<uint64_t>(cause)};
  if (std::byte* at = Room(sizeof(item))) std::memcpy(at, &item, sizeof(item));
}

void Drain::HandOver() {
  if (!current_) return;
  if (current_->used() == 0) return;
  pool_.PutDirty(std::move(current_));
}

}  // namespace brink
