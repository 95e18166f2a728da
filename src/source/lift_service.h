// Demand lifting: takes the misses that walks report, lifts the code they carry and publishes it to the walker.
//
// Pages are known by their content: the same bytes are lifted once, whichever file, process, container or private copy
// they come from, and what was lifted for one is found by all. The walker finds a page by the bytes of the line that it
// enters (bpf/walk/hash.h) and validates every line, so nothing here can make it walk wrong code.
//
// Threads: Enqueue from the drain thread, LiftNow and LiftPage from any; everything else happens on the service's own threads between
// Start and Stop: one lifts, one judges processes (process_judge.h), which would keep the other waiting.
// stats() is safe at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/status.h"
#include "base/sync.h"
#include "brink/abi/walk.h"
#include "source/process_judge.h"
#include "source/walk_tables.h"
#include "walk/code_cache.h"

namespace brink {

struct LiftServiceOptions {
  VettingOptions vetting;
  size_t queue_limit = 512;    // misses waiting; each is 4 KiB
  size_t max_processes = 4096; // judged address spaces remembered
  size_t ahead_pages = 48;     // pages lifted ahead for one miss, following direct branches and the stack; 0: none
  size_t idle_pages = 512;     // the same while nothing else is to be done
  std::string proc_root = "/proc";
  // Code in which probes have replaced instructions, as it was before: into `meant`, which has the size of `code`. False: there
  // are none. Any thread.
  std::function<bool(std::span<const uint8_t> code, std::vector<uint8_t>* meant)> restore;
};

class LiftService {
 public:
  LiftService(std::span<brink_uop> uops, std::span<brink_walk_page> pages, WalkTables* tables, LiftServiceOptions options);
  ~LiftService();

  Status Start();
  void Stop();
  // A record BRINK_REC_MISS from the ring. Anything malformed is counted as dropped.
  void Enqueue(std::span<const std::byte> record);
  // The same at once, on the calling thread, for a walk that waits: lifts what follows in the page; the rest of it and
  // what lies ahead is left to the service. Nothing is evicted for it.
  void LiftNow(std::span<const std::byte> record);
  // Code that is to come: a page's bytes (with those of the next page behind them) and where walks may enter it. On the
  // calling thread, any; nothing is evicted for it. The rest of the page is lifted too. False: there is no room.
  bool LiftPage(uint64_t object, std::span<const uint8_t> code, std::span<const uint64_t> addresses);
  // The process ended: its judgement is forgotten.
  void Forget(pid_t tgid) { judge_.Forget(tgid); }

  LiftStats stats() const;
  // Notes about address spaces that are refused or limited, each once; at most a few.
  std::vector<std::string> notes() const { return judge_.notes(); }

  // All that is done with one record, on the calling thread: for tests, which call it without Start. `lifted`, `ways`: see LiftCode.
  void Handle(const brink_miss& miss, bool lifted = false, std::vector<walk::WayOut> ways = {});

 private:
  struct ContentKey {
    uint64_t a, b;
    bool operator==(const ContentKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const ContentKey& key) {
      return H::combine(std::move(h), key.a, key.b);
    }
  };

  // A miss, and what LiftNow left to do of it.
  struct Work {
    std::unique_ptr<brink_miss> miss;
    bool lifted = false;
    std::vector<walk::WayOut> ways;
  };

  void Add(Work work);
  // Of a process that was just judged: before all others.
  void AddFirst(std::unique_ptr<brink_miss> miss) ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop();
  void LiftCode(const brink_miss& miss, bool lifted, std::vector<walk::WayOut> ways);
  static uint64_t PageOf(uint64_t address) { return address & ~uint64_t{BRINK_WALK_PAGE_SIZE - 1}; }
  static uint16_t OffsetOf(uint64_t address) { return static_cast<uint16_t>(address & (BRINK_WALK_PAGE_SIZE - 1)); }
  // A page's code as it came with a miss: the address of its first byte, its bytes and those behind them.
  struct PageCode {
    uint64_t asid, page;
    std::span<const uint8_t> code;
  };
  // Lifts at `offset`, at most so much that a walk that waits can be served in between; what it leads to goes into
  // `ways`. Number of new instructions. ResourceExhausted: no room; FailedPrecondition: the page has other bytes.
  StatusOr<uint32_t> LiftPart(const PageCode& page, uint16_t offset, bool may_evict, std::vector<walk::WayOut>* ways) ABSL_LOCKS_EXCLUDED(cache_mutex_);
  // Lifts at `starts` whatever follows within the page. The ways out of what is new go into `ways`.
  uint32_t LiftAll(const PageCode& page, std::vector<uint16_t> starts, std::vector<walk::WayOut>* ways) ABSL_LOCKS_EXCLUDED(cache_mutex_);
  // Where one walk came through, others come through the functions beside: all of the page, while there is room.
  void LiftBeside(const PageCode& page) ABSL_LOCKS_EXCLUDED(cache_mutex_);
  // Follows the stack's return addresses and ways out through the process's memory while it lives: what a walk needs next is
  // lifted before it misses.
  void LiftAhead(const brink_miss& miss, std::vector<walk::WayOut> ways, size_t most);
  // More than what is likely, after so many pages: only with ample room, and while no miss waits.
  bool GoesOnAhead(size_t done, size_t most) ABSL_LOCKS_EXCLUDED(mutex_);
  uint32_t PageFor(uint64_t asid, uint64_t address, std::span<const uint8_t> code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache_mutex_);
  void Publish(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache_mutex_);
  void TakeStats() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache_mutex_) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody waits for the grace period: on the service's thread only.
  void Evict() ABSL_LOCKS_EXCLUDED(cache_mutex_);
  size_t UnlinkOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cache_mutex_);
  void MakeRoom() ABSL_LOCKS_EXCLUDED(cache_mutex_);
  double Room() ABSL_LOCKS_EXCLUDED(cache_mutex_);

  WalkTables& tables_;
  const LiftServiceOptions options_;

  // Held for a part of a page at a time, so that a walk that waits is served between two others.
  PriorityMutex cache_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::span<brink_walk_page> pages_;
  walk::CodeCache cache_ ABSL_GUARDED_BY(cache_mutex_);

  struct Page {
    ContentKey content{};
    uint64_t lines = 0;  // bit: line is published
    bool used = false;
  };
  std::vector<Page> slots_ ABSL_GUARDED_BY(cache_mutex_);
  std::deque<uint32_t> age_ ABSL_GUARDED_BY(cache_mutex_);  // oldest first
  uint64_t since_eviction_ ABSL_GUARDED_BY(cache_mutex_) = 0;  // misses
  absl::flat_hash_map<ContentKey, uint32_t> by_content_ ABSL_GUARDED_BY(cache_mutex_);
  absl::flat_hash_map<uint64_t, uint32_t> line_owner_ ABSL_GUARDED_BY(cache_mutex_);  // hash -> slot

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  LiftStats stats_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
  ProcessJudge judge_;  // calls AddFirst
};

}  // namespace brink
