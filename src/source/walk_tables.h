// What user space writes for walks besides the two arrays of the code cache, and what it counts while it does.
#pragma once

#include <cstdint>
#include <span>

#include "brink/abi/walk.h"

namespace brink {

// The BPF maps, or plain containers in tests. Any thread.
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

}  // namespace brink
