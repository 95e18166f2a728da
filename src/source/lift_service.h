// Demand lifting: takes the misses that walks report, lifts the code they carry and publishes it to the walker.
//
// Pages are known by their content: the same bytes are lifted once, whichever file, process, container or private copy
// they come from, and what was lifted for one is found by all. The walker finds a page by the bytes of the line that it
// enters (bpf/walk/hash.h) and validates every line, so nothing here can make it walk wrong code.
//
// Threads: Enqueue from the drain thread, LiftNow and LiftPage from any; everything else happens on the service's own threads between
// Start and Stop: one lifts, one judges processes, which reads all their code once and would keep the other waiting.
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
#include <absl/container/flat_hash_set.h>

#include "base/status.h"
#include "base/sync.h"
#include "brink/abi/walk.h"
#include "source/segment_scan.h"
#include "source/vetting.h"
#include "walk/code_cache.h"

namespace brink {

// What the service writes besides the two arrays: the BPF hash maps, or plain containers in tests.
class WalkTables {
 public:
  virtual ~WalkTables() = default;
  virtual void PutLines(std::span<const uint64_t> hashes, uint32_t slot) = 0;
  virtual void RemoveLine(uint64_t hash) = 0;
  virtual bool PutProcess(uint64_t asid, const brink_walk_proc& proc) = 0;
  virtual void RemoveProcess(uint64_t asid) = 0;
  // Returns when no walk that began before the call is still running. False: one would not end; nothing may be reused.
  virtual bool WaitForWalks() = 0;
};

struct LiftStats {
  uint64_t misses = 0;         // records taken
  uint64_t queue_full = 0;     // records dropped because the service was behind
  uint64_t merged = 0;         // of processes that were waiting to be judged already
  uint64_t pages = 0;          // in the cache now
  uint64_t instructions = 0;   // lifted
  uint64_t unsupported = 0;    // of them ending a walk
  uint64_t at_once = 0;        // misses lifted while the walk waited
  uint64_t shared = 0;         // misses served by a page that was lifted already
  uint64_t ahead = 0;          // places lifted before anybody missed them
  uint64_t evicted = 0;        // pages
  uint64_t cache_full = 0;     // misses that found no room
  uint64_t no_code = 0;        // misses whose page was not in memory
  uint64_t vetted = 0;         // address spaces judged
  uint64_t refused = 0;        // of them not walked
  uint64_t limited = 0;        // of them walked without segment bases
  uint64_t gone = 0;           // ended before they could be judged
  uint64_t busy_ns = 0;        // CPU time of the service's threads
  uint64_t helper_ns = 0;      // CPU time of LiftNow
};

struct LiftServiceOptions {
  VettingOptions vetting;
  size_t queue_limit = 512;    // misses waiting; each is 4 KiB
  size_t max_processes = 4096; // judged address spaces remembered
  size_t ahead_pages = 48;     // pages lifted ahead for one miss, following direct branches; 0: none
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
  void Forget(pid_t tgid);

  LiftStats stats() const;
  // Notes about address spaces that are refused or limited, each once; at most a few.
  std::vector<std::string> notes() const;

  // What the threads do with one record; public for tests, which call it without Start. `lifted`, `ways`: see LiftCode.
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
  void AddProcess(Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();
  void VetLoop();
  void ForgetEnded();
  void Vet(const brink_miss& miss);
  void LiftCode(const brink_miss& miss, bool lifted, std::vector<walk::WayOut> ways);
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
  // Follows ways out through the process's memory while it lives: what a walk needs next is lifted before it misses.
  void LiftAhead(const brink_miss& miss, std::vector<walk::WayOut> ways, size_t most);
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
  SegmentScanner scanner_;

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

  // Of the thread that judges.
  struct Judged {
    pid_t tgid;
    uint64_t vm_stamp;
  };
  absl::flat_hash_map<uint64_t, Judged> judged_;  // by asid
  std::deque<uint64_t> judged_age_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  CondVar vet_wake_;
  std::deque<Work> vets_ ABSL_GUARDED_BY(mutex_);  // misses of processes that are to be judged, each once
  std::vector<pid_t> ended_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  LiftStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  uint64_t vet_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // CPU time of the thread that judges
  std::thread thread_, vetter_;
};

}  // namespace brink
