#include "source/lift_service.h"

#include <algorithm>
#include <bitset>
#include <cstring>

#include "base/thread.h"
#include "walk/hash.h"

namespace brink {
namespace {

constexpr size_t kLongestInstruction = 15;
constexpr size_t kKeepsRoom = 64;   // pages: a smaller cache is used whole
constexpr double kFreeShare = 0.06, kSweepsRoom = 0.5, kAheadRoom = 0.2, kLittleRoom = 0.1;
constexpr uint64_t kBetweenEvictions = 8;  // misses
constexpr size_t kPart = 96;  // instructions lifted at once: some 20 us

bool WithinPage(const walk::WayOut& way) { return !way.through_pointer && way.offset >= 0 && way.offset < BRINK_WALK_PAGE_SIZE; }
std::span<const uint8_t> CodeOf(const brink_miss& miss) { return {miss.code, std::min<size_t>(miss.code_len, sizeof miss.code)}; }

}  // namespace

LiftService::LiftService(std::span<brink_uop> uops, std::span<brink_walk_page> pages, WalkTables* tables, LiftServiceOptions options)
    : tables_(*tables),
      options_(std::move(options)),
      pages_(pages),
      cache_(uops, pages),
      slots_(pages.size()),
      judge_(tables, {options_.vetting, options_.queue_limit, options_.max_processes, options_.proc_root},
             [this](std::unique_ptr<brink_miss> miss) { AddFirst(std::move(miss)); }) {
  PriorityMutexLock lock(cache_mutex_);
  if (options_.restore) cache_.RestoreBy(options_.restore);
}

LiftService::~LiftService() { Stop(); }

Status LiftService::Start() {
  ASSIGN_OR_RETURN(thread_, StartThread("the thread that lifts", [this] { Loop(); }));
  return judge_.Start();
}

void LiftService::Stop() {
  judge_.Stop();
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

namespace {

// The record as a whole miss; null if it is malformed.
std::unique_ptr<brink_miss> CopyMiss(std::span<const std::byte> record) {
  if (record.size() < offsetof(brink_miss, code) || record.size() > sizeof(brink_miss)) return nullptr;
  auto miss = std::make_unique<brink_miss>();
  std::memcpy(miss.get(), record.data(), record.size());
  if (miss->code_len > record.size() - offsetof(brink_miss, code)) return nullptr;
  return miss;
}

}  // namespace

void LiftService::Enqueue(std::span<const std::byte> record) {
  Add({.miss = CopyMiss(record), .lifted = false, .ways = {}});
}

void LiftService::Add(Work work) {
  {
    MutexLock lock(mutex_);
    ++stats_.misses;
    const bool process = work.miss && work.miss->reason == BRINK_MISS_PROCESS;
    if (!process && (!work.miss || queue_.size() >= options_.queue_limit)) {
      ++stats_.queue_full;
      return;
    }
    if (!process) queue_.push_back(std::move(work));
  }
  // Nothing of a process is walked before it is judged.
  if (work.miss) judge_.Enqueue(std::move(work.miss));
  else wake_.NotifyOne();
}

void LiftService::AddFirst(std::unique_ptr<brink_miss> miss) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= options_.queue_limit) {
      ++stats_.queue_full;
      return;
    }
    queue_.push_front({.miss = std::move(miss), .lifted = false, .ways = {}});
  }
  wake_.NotifyOne();
}

void LiftService::LiftNow(std::span<const std::byte> record) {
  const uint64_t start = ThreadCpuNs();
  Work work{.miss = CopyMiss(record), .lifted = false, .ways = {}};
  if (work.miss && work.miss->code_len >= BRINK_WALK_PAGE_SIZE) {
    const uint64_t address = work.miss->address;
    const auto lifted = LiftPart({work.miss->asid, PageOf(address), CodeOf(*work.miss)}, OffsetOf(address), false, &work.ways);
    work.lifted = lifted.ok() && *lifted > 0;
  }
  {
    MutexLock lock(mutex_);
    stats_.at_once += work.lifted;
    stats_.helper_ns += ThreadCpuNs() - start;
  }
  Add(std::move(work));
}

bool LiftService::LiftPage(uint64_t object, std::span<const uint8_t> code, std::span<const uint64_t> addresses) {
  if (code.size() < BRINK_WALK_PAGE_SIZE || addresses.empty()) return true;
  // Locked for one piece at a time. Nothing is taken while the cache is nearly full; a page that was given up in
  // between is taken in anew.
  auto each = [&](auto work) {
    PriorityMutexLock lock(cache_mutex_);
    const uint32_t slot = cache_.room() > kFreeShare ? PageFor(object, addresses[0], code) : 0;
    const bool done = slot && work(slot);
    if (slot) Publish(slot);
    TakeStats();
    return done;
  };
  uint64_t lifted = 0;
  bool room = true, more = true;
  for (size_t i = 0; room && i < addresses.size(); ++i) {
    room = each([&](uint32_t slot) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      auto added = cache_.Lift(slot, OffsetOf(addresses[i]), code);
      lifted += added.ok() && *added > 0;
      return added.ok();
    });
  }
  // What tables of jumps lead to has no name.
  while (room && more) {
    room = each([&](uint32_t slot) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      auto rest = cache_.LiftRest(slot, code);
      more = rest.ok() && *rest;
      return rest.ok();
    });
  }
  MutexLock lock(mutex_);
  stats_.ahead += lifted;
  return room;
}

void LiftService::Loop() {
  while (true) {
    Work work;
    {
      MutexLock lock(mutex_);
      while (!stop_ && queue_.empty()) wake_.Wait(mutex_);
      if (stop_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    LiftCode(*work.miss, work.lifted, std::move(work.ways));
    MutexLock lock(mutex_);
    stats_.busy_ns = ThreadCpuNs();
  }
}

void LiftService::Handle(const brink_miss& miss, bool lifted, std::vector<walk::WayOut> ways) {
  if (miss.reason == BRINK_MISS_PROCESS) judge_.Judge(miss);
  LiftCode(miss, lifted, std::move(ways));
}

// The page that holds `address`: found by content, or taken in. 0 when there is no room.
uint32_t LiftService::PageFor(uint64_t asid, uint64_t address, std::span<const uint8_t> code) {
  // Bytes of the next page count only as far as an instruction can reach.
  size_t meaningful = std::min<size_t>(code.size(), BRINK_WALK_PAGE_SIZE + kLongestInstruction);
  ContentKey content{.a = brink_walk_bytes_hash(code.data(), meaningful, 1), .b = brink_walk_bytes_hash(code.data(), meaningful, 2)};
  if (auto it = by_content_.find(content); it != by_content_.end() && cache_.SameCode(it->second, code)) return it->second;
  // Pages first seen in one address space are neighbours: direct branches between them become edges, which are as good
  // for every other process that has the same pages at the same distance (and are validated where it has not).
  walk::PageKey key{.object = asid | 1, .page = address >> 12};
  if (cache_.Find(key) != 0) key.object = 0;
  auto slot = cache_.AddPage(key, code);
  if (!slot.ok()) return 0;
  slots_[*slot] = {.content = content, .lines = 0, .used = true};
  by_content_[content] = *slot;
  age_.push_back(*slot);
  return *slot;
}

void LiftService::TakeStats() {
  const walk::CodeCache::Stats cached = cache_.stats();
  MutexLock lock(mutex_);
  stats_.pages = cached.pages;
  stats_.instructions = cached.instructions;
  stats_.unsupported = cached.unsupported;
}

StatusOr<uint32_t> LiftService::LiftPart(const PageCode& page, uint16_t offset, bool may_evict, std::vector<walk::WayOut>* ways) {
  for (bool evicted = !may_evict;; evicted = true) {
    StatusOr<uint32_t> lifted = 0u;
    {
      PriorityMutexLock lock(cache_mutex_);
      const uint32_t slot = PageFor(page.asid, page.page, page.code);
      lifted = slot ? cache_.Lift(slot, offset, page.code, ways, kPart) : StatusOr<uint32_t>(ResourceExhausted("code cache"));
      // The table of lines forgets, and other pages have lines of the same content: that of a miss is entered again.
      if (slot) slots_[slot].lines &= ~(uint64_t{1} << offset / BRINK_WALK_CODE_LINE);
      if (slot) Publish(slot);
      TakeStats();
    }
    if (evicted || !absl::IsResourceExhausted(lifted.status())) return lifted;
    Evict();
  }
}

uint32_t LiftService::LiftAll(const PageCode& page, std::vector<uint16_t> starts, std::vector<walk::WayOut>* ways) {
  uint32_t lifted = 0;
  std::vector<walk::WayOut> found;
  std::bitset<BRINK_WALK_PAGE_SIZE> started;  // each once: the page may be given up meanwhile, and begin anew
  for (size_t next = 0; next < starts.size(); ++next) {
    if (started[starts[next]]) continue;
    started.set(starts[next]);
    found.clear();
    const auto part = LiftPart(page, starts[next], true, &found);
    if (!part.ok()) {
      MutexLock lock(mutex_);
      ++stats_.cache_full;
      if (absl::IsResourceExhausted(part.status())) break;
      continue;
    }
    lifted += *part;
    for (const walk::WayOut& way : found) {
      if (WithinPage(way)) starts.push_back(static_cast<uint16_t>(way.offset));
      else ways->push_back(way);
    }
  }
  return lifted;
}

// A cache that fills up is for what is known to be reached: gcc's cc1 found as much with it, and evicted nothing
// (docs/walk.md).
void LiftService::LiftBeside(const PageCode& page) {
  for (bool more = true; more;) {
    PriorityMutexLock lock(cache_mutex_);
    const uint32_t slot = cache_.room() > kSweepsRoom ? PageFor(page.asid, page.page, page.code) : 0;
    if (!slot) return;
    auto rest = cache_.LiftRest(slot, page.code);
    more = rest.ok() && *rest;
    Publish(slot);
    TakeStats();
  }
}

// Keeps some of the cache free: nothing is evicted for a walk that waits, so what it needs must fit.
void LiftService::MakeRoom() {
  {
    PriorityMutexLock lock(cache_mutex_);
    ++since_eviction_;
    if (slots_.size() < kKeepsRoom || cache_.room() >= kFreeShare || since_eviction_ < kBetweenEvictions) return;
  }
  Evict();
}

double LiftService::Room() {
  PriorityMutexLock lock(cache_mutex_);
  return cache_.room();
}

// `lifted`: LiftNow was here, and found `ways`; what is left is the rest of the page and what lies ahead.
void LiftService::LiftCode(const brink_miss& miss, bool lifted, std::vector<walk::WayOut> ways) {
  if (miss.code_len < BRINK_WALK_PAGE_SIZE) {
    MutexLock lock(mutex_);
    ++stats_.no_code;
    return;
  }
  const PageCode page{miss.asid, PageOf(miss.address), CodeOf(miss)};
  std::vector<uint16_t> starts;
  if (lifted) {
    for (const walk::WayOut& way : ways) {
      if (WithinPage(way)) starts.push_back(static_cast<uint16_t>(way.offset));
    }
    std::erase_if(ways, WithinPage);
  } else {
    starts.push_back(OffsetOf(miss.address));
  }
  const bool fresh = LiftAll(page, std::move(starts), &ways) > 0;
  LiftBeside(page);
  if (!fresh && !lifted) {
    MutexLock lock(mutex_);
    ++stats_.shared;
    return;
  }
  MakeRoom();
  // A cache that fills up is for what walks really reach.
  double room = Room();
  const size_t ahead = room > kAheadRoom ? options_.ahead_pages : room > kLittleRoom ? options_.ahead_pages / 8 : 0;
  if (ahead > 0) LiftAhead(miss, std::move(ways), ahead);
}

LiftStats LiftService::stats() const {
  LiftStats stats;
  {
    MutexLock lock(mutex_);
    stats = stats_;
  }
  judge_.AddTo(&stats);
  return stats;
}

}  // namespace brink
