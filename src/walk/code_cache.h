// The code cache: places lifted micro-ops in the two arrays that the walker reads.
//
// Works on any memory: the mapped BPF arrays (walk_uops, walk_pages) or plain vectors. It knows pages by a key that the
// owner chooses (file identity and page number, or process and page number for anonymous code); pages whose keys share
// `object` are neighbours by `page`, and direct branches between them become edges.
//
// Publishing: micro-ops first, then one 32-bit release store of an index. Unlink takes every edge and entry to a page
// away; its slot may be reused only when no walk can still be in it (Reclaim, after the owner's grace period).
// Thread-compatible: one writer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include "base/status.h"
#include "brink/abi/walk.h"
#include "walk/lifter.h"

namespace brink::walk {

struct PageKey {
  uint64_t object = 0;  // 0: has no neighbours
  uint64_t page = 0;
  bool operator==(const PageKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const PageKey& key) {
    return H::combine(std::move(h), key.object, key.page);
  }
};

// Where lifted code goes from its page: to an address, or through a pointer in memory (a call or jump by way of the
// GOT). Counted from the start of the page.
struct WayOut {
  int64_t offset = 0;
  bool through_pointer = false;
};

class CodeCache {
 public:
  struct Stats {
    uint64_t pages = 0;         // in use
    uint64_t units = 0;         // in use, of the array of micro-ops
    uint64_t instructions = 0;  // lifted, ever
    uint64_t unsupported = 0;   // of them ending a walk
  };

  // The arrays stay the owner's and must be zero. Slot and index 0 are left unused.
  CodeCache(std::span<brink_uop> uops, std::span<brink_walk_page> pages, const LiftOptions& options = LiftOptions::Host());

  // Code in which probes have replaced instructions as it was before: into the vector, of the same size. False: it has none.
  using Restore = std::function<bool(std::span<const uint8_t> code, std::vector<uint8_t>* meant)>;
  // From now on what is lifted is what `restore` says, found by the bytes that are in memory. Before the first page.
  void RestoreBy(Restore restore) { restore_ = std::move(restore); }

  // Takes a page in: `code` is 4,096 bytes, with or without BRINK_WALK_TAIL bytes of the following page. Nothing is
  // lifted yet. ResourceExhausted when no slot is free. A key that is present already is an error; see Find.
  StatusOr<uint32_t> AddPage(const PageKey& key, std::span<const uint8_t> code);
  // Slot of a key, or 0.
  uint32_t Find(const PageKey& key) const;
  // True if `code` is what the slot was added with, by two hashes (the tail counts only where both have one).
  bool SameCode(uint32_t slot, std::span<const uint8_t> code) const;

  // Lifts what is reachable from `offset` within the page; `code` as it was added. Number of new instructions (0: nothing
  // to lift there, as a breakpoint or an instruction that leaves the known bytes; or a line that was lifted already has
  // other bytes). ResourceExhausted when the micro-ops do not fit: the page then keeps what it had.
  // `ways_out`, where given, gets the ways that lead out of the page (see WayOut), and with `most` instructions those
  // within it that were not followed any more, or found no room.
  StatusOr<uint32_t> Lift(uint32_t slot, uint16_t offset, std::span<const uint8_t> code, std::vector<WayOut>* ways_out = nullptr,
                          size_t most = SIZE_MAX);
  bool IsLifted(uint32_t slot, uint16_t offset) const;
  // Lifts what else looks like code on the page, once: for a page that walks were seen in. A part of it a call, so that
  // others come in between. False: that was the last part. Errors as Lift.
  StatusOr<bool> LiftRest(uint32_t slot, std::span<const uint8_t> code);
  // The bytes of a line that has lifted instructions; empty for another.
  std::span<const uint8_t> LineCode(uint32_t slot, uint32_t line) const;

  // Takes every edge and entry to the pages away and forgets their keys. The walker may be in them until Reclaim. The
  // time is that of a look at all edges between pages, so many pages go at once.
  void Unlink(std::span<const uint32_t> slots);
  // Gives the memory of unlinked pages back: call after the grace period that followed Unlink.
  void Reclaim();

  Stats stats() const { return stats_; }
  // The share that is free of what is scarcer, pages or micro-ops: 0 to 1.
  double room() const;

 private:
  // A unit with a link in it: all kinds have it in one place (Linked).
  struct Link {
    uint32_t unit;
    uint32_t from_slot;
  };
  struct Extent {
    uint32_t at = 0;  // first unit
    uint32_t size = 0;
  };
  struct Slot {
    PageKey key;
    bool used = false;
    bool has_tail = false;
    uint64_t content[2] = {};
    std::vector<Extent> extents;
    std::vector<bool> done;
    Lifter::SweepState swept;
    std::vector<Link> incoming;  // edges of other pages' micro-ops that lead here
  };
  // An instruction in its place, and the unit with its way to the one behind it: 0 where it needs none.
  struct Placed {
    uint32_t link = 0;
    uint32_t unit = 0;
    uint32_t next_unit = 0;
  };
  // A block that is filled but not yet to be found, and what is to lead to it.
  struct Fresh {
    __u32* from;
    uint32_t at;
  };

  // The link to an instruction, 0: it is not lifted.
  uint32_t LinkOf(uint32_t slot, int64_t offset) const;
  brink_walk_block& BlockAt(uint32_t at) const;
  brink_walk_block_ways& WaysAt(uint32_t at) const;
  __u32* Linked(uint32_t unit) const { return &uops_[unit].link; }
  // What executing these bytes amounts to. Until the next call.
  std::span<const uint8_t> Meant(std::span<const uint8_t> usable);
  // What of `code` may be lifted into the page: without the tail if that is another than the page's.
  std::span<const uint8_t> Usable(uint32_t slot, std::span<const uint8_t> code);
  // Room for a block of so many units. 0: none.
  uint32_t Allocate(uint32_t slot, uint32_t units);
  void Free(const Extent& extent);
  // A block for as many of the instructions as go into one. Their number; *at is where, 0: no room.
  size_t PlaceBlock(uint32_t slot, uint32_t line, uint32_t first, std::span<const Insn> insns, uint32_t* at, std::vector<Placed>* placed);
  // Blocks for instructions of one line, whose bytes are `bytes`. Where they are goes to `placed`. ResourceExhausted: no
  // room; FailedPrecondition: the line has other bytes or too many blocks already. What came to `placed` stays.
  Status PlaceLine(uint32_t slot, uint32_t line, std::span<const uint8_t> bytes, std::span<const Insn> insns, std::vector<Fresh>* fresh,
                 std::vector<Placed>* placed);
  // What finds no room goes into `unplaced`, if given.
  StatusOr<uint32_t> Place(uint32_t slot, std::span<const uint8_t> code, std::vector<Insn> lifted, std::vector<uint16_t>* unplaced = nullptr);
  void Connect(uint32_t slot, const Placed& placed, const Insn& insn);
  void Edge(uint32_t slot, uint32_t unit, int64_t offset);
  void Settle(uint32_t slot, uint16_t offset, uint32_t link);

  Restore restore_;
  std::vector<uint8_t> meant_;
  Lifter lifter_;
  std::span<brink_uop> uops_;
  std::span<brink_walk_page> pages_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_, unlinked_;
  absl::btree_map<uint32_t, uint32_t> free_;  // units: where, how many; no two side by side
  uint32_t free_units_ = 0, next_free_ = 0;   // the search begins where the last one ended
  absl::flat_hash_map<PageKey, uint32_t> by_key_;
  // Edges that wait for their end to be lifted, by page key and offset.
  absl::flat_hash_map<PageKey, std::vector<std::pair<uint16_t, Link>>> waiting_;
  Stats stats_;
};

}  // namespace brink::walk
