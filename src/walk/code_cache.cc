#include "walk/code_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "walk/hash.h"
#include "walk/ops.h"

namespace brink::walk {
namespace {

// The walker reads these fields with plain 32-bit loads at any moment.
template <typename T>
void Publish(T* field, T value) {
  __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

constexpr size_t kLongestInstruction = 15;
constexpr int64_t kSweepPart = 512;  // bytes: some 130 instructions, 30 us

uint32_t LinkTo(uint32_t block, uint32_t place) { return block << BRINK_LINK_SHIFT | place; }

}  // namespace

CodeCache::CodeCache(std::span<brink_uop> uops, std::span<brink_walk_page> pages, const LiftOptions& options)
    : lifter_(options), uops_(uops), pages_(pages), slots_(pages.size()) {
  for (uint32_t slot = static_cast<uint32_t>(pages.size()); slot-- > 1;) free_slots_.push_back(slot);
  const size_t units = std::min<size_t>(uops.size(), size_t{1} << (32 - BRINK_LINK_SHIFT));
  uops_ = uops_.first(units);  // what a link reaches
  if (units > 1) free_[1] = free_units_ = static_cast<uint32_t>(units - 1);
}

StatusOr<uint32_t> CodeCache::AddPage(const PageKey& key, std::span<const uint8_t> code) {
  if (code.size() < BRINK_WALK_PAGE_SIZE) return InvalidArgument(absl::StrCat("code page of ", code.size(), " bytes"));
  if (key.object != 0 && by_key_.contains(key)) return InvalidArgument("code page is in the cache already");
  if (free_slots_.empty()) return ResourceExhausted("code cache: no free page slot");
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  brink_walk_page& page = pages_[slot];
  std::memset(&page, 0, sizeof page);
  Slot& s = slots_[slot];
  s = Slot{};
  s.key = key;
  s.used = true;
  s.has_tail = code.size() >= BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL;
  if (s.has_tail) std::memcpy(page.tail, code.data() + BRINK_WALK_PAGE_SIZE, BRINK_WALK_TAIL);
  for (uint64_t seed : {0, 1}) s.content[seed] = brink_walk_bytes_hash(code.data(), BRINK_WALK_PAGE_SIZE, seed + 1);
  s.done.assign(BRINK_WALK_PAGE_SIZE, false);
  if (key.object != 0) by_key_[key] = slot;
  ++stats_.pages;
  return slot;
}

double CodeCache::room() const {
  const double pages = static_cast<double>(free_slots_.size()) / static_cast<double>(pages_.size());
  return std::min(pages, static_cast<double>(free_units_) / static_cast<double>(uops_.size()));
}

uint32_t CodeCache::Find(const PageKey& key) const {
  auto it = by_key_.find(key);
  return it == by_key_.end() ? 0 : it->second;
}

bool CodeCache::SameCode(uint32_t slot, std::span<const uint8_t> code) const {
  if (slot >= slots_.size() || !slots_[slot].used || code.size() < BRINK_WALK_PAGE_SIZE) return false;
  for (uint64_t seed : {0, 1}) {
    if (slots_[slot].content[seed] != brink_walk_bytes_hash(code.data(), BRINK_WALK_PAGE_SIZE, seed + 1)) return false;
  }
  if (!slots_[slot].has_tail || code.size() < BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL) return true;
  // The head of the next page matters only as far as one instruction reaches.
  return std::memcmp(pages_[slot].tail, code.data() + BRINK_WALK_PAGE_SIZE, kLongestInstruction) == 0;
}

bool CodeCache::IsLifted(uint32_t slot, uint16_t offset) const {
  return slot < slots_.size() && slots_[slot].used && offset < BRINK_WALK_PAGE_SIZE && LinkOf(slot, offset) != 0;
}

brink_walk_block& CodeCache::BlockAt(uint32_t at) const { return reinterpret_cast<brink_walk_block&>(uops_[at]); }

brink_walk_block_ways& CodeCache::WaysAt(uint32_t at) const { return reinterpret_cast<brink_walk_block_ways&>(uops_[at + 1]); }

std::span<const uint8_t> CodeCache::LineCode(uint32_t slot, uint32_t line) const {
  const uint32_t at = slot < pages_.size() && line < BRINK_WALK_PAGE_LINES ? pages_[slot].line[line] : 0;
  if (at == 0) return {};
  return {reinterpret_cast<const uint8_t*>(&uops_[at + BRINK_WALK_MORE_HEAD]), BRINK_WALK_CODE_LINE};
}

// As the walker finds it (walk_entry in bpf/walk/code.h).
uint32_t CodeCache::LinkOf(uint32_t slot, int64_t offset) const {
  const uint64_t bit = uint64_t{1} << (offset % BRINK_WALK_CODE_LINE);
  uint32_t head = BRINK_WALK_FIRST_HEAD;
  for (uint32_t at = pages_[slot].line[offset / BRINK_WALK_CODE_LINE]; at != 0; at = WaysAt(at).more, head = BRINK_WALK_MORE_HEAD) {
    const brink_walk_block& block = BlockAt(at);
    if (block.lifted & bit) return LinkTo(at, head + static_cast<uint32_t>(std::popcount(block.lifted & (bit - 1)) + std::popcount(block.more & (bit - 1))));
  }
  return 0;
}

uint32_t CodeCache::Allocate(uint32_t slot, uint32_t units) {
  // What is lifted one after the other lies side by side, so that a walk stays in few pages of memory.
  const auto fits = [&](const auto& extent) { return extent.second >= units; };
  const auto from = free_.lower_bound(next_free_);
  auto found = std::find_if(from, free_.end(), fits);
  if (found == free_.end()) {
    found = std::find_if(free_.begin(), from, fits);
    if (found == from) return 0;
  }
  const uint32_t at = found->first, left = found->second - units;
  free_.erase(found);
  if (left != 0) free_[at + units] = left;
  free_units_ -= units;
  stats_.units += units;
  next_free_ = at + units;
  std::vector<Extent>& extents = slots_[slot].extents;
  if (!extents.empty() && extents.back().at + extents.back().size == at) {
    extents.back().size += units;
  } else {
    extents.push_back({at, units});
  }
  return at;
}

void CodeCache::Free(const Extent& extent) {
  free_units_ += extent.size;
  stats_.units -= extent.size;
  auto after = free_.lower_bound(extent.at);
  uint32_t at = extent.at, size = extent.size;
  if (after != free_.end() && after->first == at + size) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == at) {
      before->second += size;
      return;
    }
  }
  free_[at] = size;
}

namespace {

void CollectWaysOut(const std::vector<Insn>& lifted, std::vector<WayOut>* ways) {
  auto outside = [](int64_t offset) { return offset < 0 || offset >= BRINK_WALK_PAGE_SIZE; };
  for (const Insn& insn : lifted) {
    if (insn.target != Insn::kNoTarget && outside(insn.target)) ways->push_back({.offset = insn.target});
    if (insn.falls_through && outside(insn.end())) ways->push_back({.offset = insn.end()});
    const bool indirect = insn.uop.op == BRINK_OP_CALLI || insn.uop.op == BRINK_OP_JMPI;
    if (indirect && (insn.uop.flags & BRINK_UOP_MEM) && insn.uop.base == BRINK_WREG_IP) {
      ways->push_back({.offset = int64_t{insn.offset} + insn.uop.disp, .through_pointer = true});
    }
  }
}

}  // namespace

std::span<const uint8_t> CodeCache::Usable(uint32_t slot, std::span<const uint8_t> code) {
  Slot& s = slots_[slot];
  if (code.size() < BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL) return code.first(BRINK_WALK_PAGE_SIZE);
  const uint8_t* tail = code.data() + BRINK_WALK_PAGE_SIZE;
  // Nothing that crosses the end is lifted yet, so nobody looks at the tail.
  if (!s.has_tail) std::memcpy(pages_[slot].tail, tail, BRINK_WALK_TAIL);
  s.has_tail = true;
  const bool same = std::memcmp(pages_[slot].tail, tail, kLongestInstruction) == 0;
  return code.first(same ? BRINK_WALK_PAGE_SIZE + kLongestInstruction : BRINK_WALK_PAGE_SIZE);
}

std::span<const uint8_t> CodeCache::Meant(std::span<const uint8_t> usable) {
  return restore_ && restore_(usable, &meant_) ? std::span<const uint8_t>(meant_) : usable;
}

StatusOr<uint32_t> CodeCache::Lift(uint32_t slot, uint16_t offset, std::span<const uint8_t> code, std::vector<WayOut>* ways_out,
                                   size_t most) {
  if (slot == 0 || slot >= slots_.size() || !slots_[slot].used || offset >= BRINK_WALK_PAGE_SIZE || code.size() < BRINK_WALK_PAGE_SIZE) {
    return InvalidArgument("no such code page");
  }
  const std::span<const uint8_t> usable = Usable(slot, code);
  std::vector<uint16_t> left;
  std::vector<Insn> lifted = lifter_.Page(Meant(usable), offset, slots_[slot].done, most, &left);
  if (ways_out) CollectWaysOut(lifted, ways_out);
  auto placed = Place(slot, usable, std::move(lifted), &left);
  for (size_t i = 0; ways_out && i < left.size(); ++i) ways_out->push_back({.offset = left[i]});
  return placed;
}

StatusOr<bool> CodeCache::LiftRest(uint32_t slot, std::span<const uint8_t> code) {
  if (slot == 0 || slot >= slots_.size() || !slots_[slot].used || code.size() < BRINK_WALK_PAGE_SIZE) return InvalidArgument("no such code page");
  Slot& s = slots_[slot];
  if (s.swept.at >= BRINK_WALK_PAGE_SIZE) return false;
  const std::span<const uint8_t> usable = Usable(slot, code);
  const int64_t to = (s.swept.at / kSweepPart + 1) * kSweepPart;
  std::vector<Insn> lifted = lifter_.Sweep(Meant(usable), s.done, &s.swept, to);
  const bool more = s.swept.at < BRINK_WALK_PAGE_SIZE;
  RETURN_IF_ERROR(Place(slot, usable, std::move(lifted)).status());
  return more;
}

size_t CodeCache::PlaceBlock(uint32_t slot, uint32_t line, uint32_t first, std::span<const Insn> insns, uint32_t* at, std::vector<Placed>* placed) {
  struct Room {
    PackedInsn packed;
    bool next = false;  // the way to the following instruction needs a link
    bool more = false;
  };
  std::vector<Room> rooms;
  const uint32_t head = first == 0 ? BRINK_WALK_FIRST_HEAD : BRINK_WALK_MORE_HEAD;
  uint32_t units = head;
  for (size_t i = 0; i < insns.size() && units + 3 <= BRINK_WALK_BLOCK_UNITS; ++i) {
    Room room{.packed = Pack(insns[i])};
    room.next = insns[i].falls_through && (i + 1 == insns.size() || insns[i + 1].offset != insns[i].end());
    room.more = room.packed.other != 0 || room.next;
    units += room.more ? 2 : 1;
    rooms.push_back(room);
  }
  if (rooms.size() < insns.size() && insns[rooms.size() - 1].falls_through && !rooms.back().next) {
    rooms.back().next = true;  // cut off from the one behind it
    units += rooms.back().more ? 0 : 1;
    rooms.back().more = true;
  }
  // One of them has its link in the head.
  const auto last = std::find_if(rooms.rbegin(), rooms.rend(), [](const Room& r) { return r.next && r.packed.other == 0; });
  if (last != rooms.rend()) {
    last->more = false;
    last->packed.uop.len |= BRINK_UOP_LAST;
    --units;
  }
  *at = Allocate(slot, units);
  if (*at == 0) return SIZE_MAX;
  BlockAt(*at) = {};
  WaysAt(*at) = {.more = 0, .line = slot * BRINK_WALK_PAGE_LINES + line, .first = first == 0 ? *at : first, .end = 0};
  uint32_t unit = *at + head;
  for (size_t i = 0; i < rooms.size(); ++i) {
    Room& room = rooms[i];
    const uint32_t offset = insns[i].offset % BRINK_WALK_CODE_LINE;
    BlockAt(*at).lifted |= uint64_t{1} << offset;
    if (offset + insns[i].uop.len > BRINK_WALK_CODE_LINE) room.packed.uop.len |= BRINK_UOP_CROSSES;
    if (room.more) {
      BlockAt(*at).more |= uint64_t{1} << offset;
      room.packed.uop.len |= BRINK_UOP_MORE;
      // Who has a second unit for `other` alone is followed by the next instruction of this block.
      const __u32 next = !room.next && insns[i].falls_through ? LinkTo(*at, unit + 2 - *at) : 0;
      reinterpret_cast<brink_uop_more&>(uops_[unit + 1]) = {.reserved = 0, .other = room.packed.other, .next = next};
    }
    uops_[unit] = room.packed.uop;
    placed->push_back({.link = LinkTo(*at, unit - *at), .unit = unit, .next_unit = !room.next ? 0 : room.more ? unit + 1 : *at + 1});
    if (insns[i].uop.op == BRINK_OP_STOP && insns[i].uop.aux == BRINK_STOP_UNSUPPORTED) ++stats_.unsupported;
    unit += room.more ? 2 : 1;
  }
  return rooms.size();
}

Status CodeCache::PlaceLine(uint32_t slot, uint32_t line, std::span<const uint8_t> bytes, std::span<const Insn> insns, std::vector<Fresh>* fresh,
                          std::vector<Placed>* placed) {
  __u32* from = &pages_[slot].line[line];
  uint32_t first = *from, blocks = 0;
  if (first != 0 && std::memcmp(LineCode(slot, line).data(), bytes.data(), BRINK_WALK_CODE_LINE) != 0) return FailedPrecondition("code page has other bytes");
  for (uint32_t at = *from; at != 0; at = WaysAt(at).more, ++blocks) from = &WaysAt(at).more;
  while (first == 0 || !insns.empty()) {
    if (++blocks > BRINK_WALK_BLOCKS) return FailedPrecondition("code line is in too many pieces");
    uint32_t at = 0;
    const size_t here = PlaceBlock(slot, line, first, insns, &at, placed);
    if (at == 0) return ResourceExhausted("code cache: no free micro-ops");
    if (first == 0) {
      first = at;
      std::memcpy(&uops_[at + BRINK_WALK_MORE_HEAD], bytes.data(), BRINK_WALK_CODE_LINE);
    }
    insns = insns.subspan(here);
    fresh->push_back({.from = from, .at = at});
    from = &WaysAt(at).more;
  }
  return OkStatus();
}

// Gives instructions of a page micro-ops and makes them findable.
StatusOr<uint32_t> CodeCache::Place(uint32_t slot, std::span<const uint8_t> code, std::vector<Insn> lifted, std::vector<uint16_t>* unplaced) {
  if (lifted.empty()) return 0u;
  std::sort(lifted.begin(), lifted.end(), [](const Insn& a, const Insn& b) { return a.offset < b.offset; });
  std::vector<Placed> placed;
  placed.reserve(lifted.size());
  std::vector<Fresh> fresh;
  auto bytes = [&](uint32_t line) { return code.subspan(line * BRINK_WALK_CODE_LINE, BRINK_WALK_CODE_LINE); };
  auto line_of = [](const Insn& insn) { return insn.offset / uint32_t{BRINK_WALK_CODE_LINE}; };
  Status fits = OkStatus();
  for (size_t begin = 0, end; begin < lifted.size() && fits.ok(); begin = end) {
    const uint32_t line = line_of(lifted[begin]);
    for (end = begin; end < lifted.size() && line_of(lifted[end]) == line; ++end) {
    }
    const std::span<const Insn> here = std::span(lifted).subspan(begin, end - begin);
    fits = PlaceLine(slot, line, bytes(line), here, &fresh, &placed);
    // What runs into the next line is compared with that line's bytes, so they must be there.
    const bool crosses = std::any_of(here.begin(), here.end(), [&](const Insn& insn) { return insn.end() > int64_t{line + 1} * BRINK_WALK_CODE_LINE; });
    const bool followed = end < lifted.size() && line_of(lifted[end]) == line + 1;
    if (fits.ok() && crosses && !followed && line + 1 < BRINK_WALK_PAGE_LINES) fits = PlaceLine(slot, line + 1, bytes(line + 1), {}, &fresh, &placed);
  }
  // What has no place is not lifted; edges to it go through the translation and end as a miss.
  for (size_t i = placed.size(); i < lifted.size(); ++i) {
    slots_[slot].done[lifted[i].offset] = false;
    if (unplaced) unplaced->push_back(lifted[i].offset);
  }
  lifted.resize(placed.size());
  for (const Fresh& block : fresh) Publish(block.from, block.at);
  for (size_t i = 0; i < placed.size(); ++i) Connect(slot, placed[i], lifted[i]);
  for (size_t i = 0; i < placed.size(); ++i) Settle(slot, lifted[i].offset, placed[i].link);
  stats_.instructions += placed.size();
  if (placed.empty()) RETURN_IF_ERROR(fits);
  return static_cast<uint32_t>(placed.size());
}

void CodeCache::Connect(uint32_t slot, const Placed& placed, const Insn& insn) {
  if (placed.next_unit != 0) Edge(slot, placed.next_unit, insn.end());
  if (insn.target != Insn::kNoTarget) Edge(slot, placed.unit, insn.target);
}

void CodeCache::Edge(uint32_t slot, uint32_t unit, int64_t offset) {
  const int64_t pages_away = offset >= 0 ? offset / BRINK_WALK_PAGE_SIZE : -((-offset + BRINK_WALK_PAGE_SIZE - 1) / BRINK_WALK_PAGE_SIZE);
  const uint16_t within = static_cast<uint16_t>(offset - pages_away * BRINK_WALK_PAGE_SIZE);
  uint32_t to_slot = slot;
  PageKey key = slots_[slot].key;
  if (pages_away != 0) {
    if (key.object == 0) return;
    key.page += static_cast<uint64_t>(pages_away);
    to_slot = Find(key);
  }
  const uint32_t to = to_slot ? LinkOf(to_slot, within) : 0;
  if (to == 0) {
    if (key.object != 0) waiting_[key].emplace_back(within, Link{unit, slot});
    return;
  }
  Publish(Linked(unit), to);
  if (to_slot != slot) slots_[to_slot].incoming.push_back({unit, slot});
}

void CodeCache::Settle(uint32_t slot, uint16_t offset, uint32_t link) {
  auto it = waiting_.find(slots_[slot].key);
  if (it == waiting_.end()) return;
  auto& list = it->second;
  for (size_t i = 0; i < list.size();) {
    if (list[i].first != offset) {
      ++i;
      continue;
    }
    const Link w = list[i].second;
    Publish(Linked(w.unit), link);
    if (w.from_slot != slot) slots_[slot].incoming.push_back(w);
    list[i] = list.back();
    list.pop_back();
  }
  if (list.empty()) waiting_.erase(it);
}

void CodeCache::Unlink(std::span<const uint32_t> slots) {
  std::vector<bool> gone(slots_.size(), false);
  for (uint32_t slot : slots) {
    if (slot == 0 || slot >= slots_.size() || !slots_[slot].used) continue;
    Slot& s = slots_[slot];
    for (const Link& link : s.incoming) Publish(Linked(link.unit), 0u);
    s.incoming.clear();
    for (__u32& line : pages_[slot].line) Publish(&line, __u32{0});
    if (s.key.object != 0) by_key_.erase(s.key);
    s.used = false;
    gone[slot] = true;
    unlinked_.push_back(slot);
    --stats_.pages;
  }
  // Nothing may be written any more into micro-ops that are about to go, nor into others on their behalf.
  absl::erase_if(waiting_, [&](auto& entry) {
    std::erase_if(entry.second, [&](const auto& w) { return gone[w.second.from_slot]; });
    return entry.second.empty();
  });
  for (Slot& other : slots_) {
    if (other.used) std::erase_if(other.incoming, [&](const Link& link) { return gone[link.from_slot]; });
  }
}

void CodeCache::Reclaim() {
  for (uint32_t slot : unlinked_) {
    for (const Extent& extent : slots_[slot].extents) {
      std::memset(&uops_[extent.at], 0, extent.size * sizeof(brink_uop));
      Free(extent);
    }
    slots_[slot] = Slot{};
    free_slots_.push_back(slot);
  }
  unlinked_.clear();
}

}  // namespace brink::walk
