#include "walk/code_cache.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_cat.h>

#include "base/check.h"
#include "walk/ops.h"

namespace brink::walk {
namespace {

// The walker reads these fields with plain 32-bit or 16-bit loads at any moment.
template <typename T>
void Publish(T* field, T value) {
  __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

}  // namespace

CodeCache::CodeCache(std::span<brink_uop> uops, std::span<brink_walk_page> pages, const LiftOptions& options)
    : lifter_(options), uops_(uops), pages_(pages), slots_(pages.size()) {
  for (uint32_t slot = static_cast<uint32_t>(pages.size()); slot-- > 1;) free_slots_.push_back(slot);
  for (uint32_t chunk = static_cast<uint32_t>(uops.size() / BRINK_WALK_CHUNK); chunk-- > 1;) free_chunks_.push_back(chunk * BRINK_WALK_CHUNK);
}

StatusOr<uint32_t> CodeCache::AddPage(const PageKey& key, std::span<const uint8_t> code) {
  if (code.size() < BRINK_WALK_PAGE_SIZE) return InvalidArgument(absl::StrCat("code page of ", code.size(), " bytes"));
  if (key.object != 0 && by_key_.contains(key)) return InvalidArgument("code page is in the cache already");
  if (free_slots_.empty()) return ResourceExhausted("code cache: no free page slot");
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  brink_walk_page& page = pages_[slot];
  std::memset(&page, 0, sizeof page);
  std::memcpy(page.code, code.data(), BRINK_WALK_PAGE_SIZE);
  Slot& s = slots_[slot];
  s = Slot{};
  s.key = key;
  s.used = true;
  s.has_tail = code.size() >= BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL;
  if (s.has_tail) std::memcpy(page.tail, code.data() + BRINK_WALK_PAGE_SIZE, BRINK_WALK_TAIL);
  s.done.assign(BRINK_WALK_PAGE_SIZE, false);
  if (key.object != 0) by_key_[key] = slot;
  ++stats_.pages;
  return slot;
}

double CodeCache::room() const {
  const double pages = static_cast<double>(free_slots_.size()) / static_cast<double>(pages_.size());
  const double uops = static_cast<double>(free_chunks_.size()) * BRINK_WALK_CHUNK / static_cast<double>(uops_.size());
  return std::min(pages, uops);
}

uint32_t CodeCache::Find(const PageKey& key) const {
  auto it = by_key_.find(key);
  return it == by_key_.end() ? 0 : it->second;
}

bool CodeCache::SameCode(uint32_t slot, std::span<const uint8_t> code) const {
  if (slot >= slots_.size() || !slots_[slot].used || code.size() < BRINK_WALK_PAGE_SIZE) return false;
  if (std::memcmp(pages_[slot].code, code.data(), BRINK_WALK_PAGE_SIZE) != 0) return false;
  if (!slots_[slot].has_tail || code.size() < BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL) return true;
  // The head of the next page matters only as far as one instruction reaches.
  return std::memcmp(pages_[slot].tail, code.data() + BRINK_WALK_PAGE_SIZE, 15) == 0;
}

bool CodeCache::IsLifted(uint32_t slot, uint16_t offset) const {
  return slot < slots_.size() && slots_[slot].used && offset < BRINK_WALK_PAGE_SIZE && pages_[slot].entry[offset] != 0;
}

uint32_t CodeCache::IndexOf(uint32_t slot, int64_t offset) const {
  const uint16_t entry = pages_[slot].entry[offset];
  return entry ? pages_[slot].chunk[entry / BRINK_WALK_CHUNK] + entry % BRINK_WALK_CHUNK : 0;
}

StatusOr<uint32_t> CodeCache::Allocate(uint32_t slot, uint16_t* entry) {
  Slot& s = slots_[slot];
  if (s.chunks.empty() || s.filled == BRINK_WALK_CHUNK) {
    // 4,096 offsets and one unused entry: the last offset of an entirely odd page may not fit.
    if (s.chunks.size() == BRINK_WALK_PAGE_CHUNKS || free_chunks_.empty()) return ResourceExhausted("code cache: no free micro-ops");
    const uint32_t chunk = free_chunks_.back();
    free_chunks_.pop_back();
    s.filled = s.chunks.empty() ? 1 : 0;  // entry 0 of a page means "not lifted"
    pages_[slot].chunk[s.chunks.size()] = chunk;
    s.chunks.push_back(chunk);
    ++stats_.chunks;
  }
  *entry = static_cast<uint16_t>((s.chunks.size() - 1) * BRINK_WALK_CHUNK + s.filled);
  return s.chunks.back() + s.filled++;
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

std::span<const uint8_t> CodeCache::CodeOf(uint32_t slot) const {
  static_assert(offsetof(brink_walk_page, tail) == offsetof(brink_walk_page, code) + BRINK_WALK_PAGE_SIZE);
  return {reinterpret_cast<const uint8_t*>(&pages_[slot]) + offsetof(brink_walk_page, code),
          BRINK_WALK_PAGE_SIZE + (slots_[slot].has_tail ? size_t{BRINK_WALK_TAIL} : 0)};
}

StatusOr<uint32_t> CodeCache::Lift(uint32_t slot, uint16_t offset, std::vector<WayOut>* ways_out) {
  if (slot == 0 || slot >= slots_.size() || !slots_[slot].used || offset >= BRINK_WALK_PAGE_SIZE) return InvalidArgument("no such code page");
  std::vector<Insn> lifted = lifter_.Page(CodeOf(slot), offset, slots_[slot].done);
  if (ways_out) CollectWaysOut(lifted, ways_out);
  return Place(slot, std::move(lifted));
}

StatusOr<uint32_t> CodeCache::LiftRest(uint32_t slot) {
  if (slot == 0 || slot >= slots_.size() || !slots_[slot].used) return InvalidArgument("no such code page");
  Slot& s = slots_[slot];
  if (s.swept) return 0u;
  s.swept = true;
  return Place(slot, lifter_.Sweep(CodeOf(slot), s.done));
}

// Gives instructions of a page micro-ops and makes them findable.
StatusOr<uint32_t> CodeCache::Place(uint32_t slot, std::vector<Insn> lifted) {
  if (lifted.empty()) return 0u;
  Slot& s = slots_[slot];
  brink_walk_page& page = pages_[slot];
  // In address order, so that a straight run is straight in memory too.
  std::sort(lifted.begin(), lifted.end(), [](const Insn& a, const Insn& b) { return a.offset < b.offset; });
  std::vector<std::pair<uint32_t, uint16_t>> placed;
  placed.reserve(lifted.size());
  for (Insn& insn : lifted) {
    uint16_t entry;
    auto index = Allocate(slot, &entry);
    if (!index.ok()) {
      // What has no place is not lifted; edges to it go through the translation and end as a miss.
      for (size_t i = placed.size(); i < lifted.size(); ++i) s.done[lifted[i].offset] = false;
      if (placed.empty()) return index.status();
      lifted.resize(placed.size());
      break;
    }
    insn.uop.line = slot * 64 + insn.offset / BRINK_WALK_CODE_LINE;
    if (insn.offset % BRINK_WALK_CODE_LINE + insn.uop.len > BRINK_WALK_CODE_LINE) insn.uop.line |= BRINK_UOP_LINE_CROSSES;
    uops_[*index] = insn.uop;
    placed.emplace_back(*index, entry);
    if (insn.uop.op == BRINK_OP_STOP && insn.uop.aux == BRINK_STOP_UNSUPPORTED) ++stats_.unsupported;
  }
  for (size_t i = 0; i < placed.size(); ++i) Publish(&page.entry[lifted[i].offset], placed[i].second);
  for (size_t i = 0; i < placed.size(); ++i) Connect(slot, placed[i].first, lifted[i]);
  for (size_t i = 0; i < placed.size(); ++i) Settle(slot, lifted[i].offset, placed[i].first);
  stats_.instructions += placed.size();
  return static_cast<uint32_t>(placed.size());
}

void CodeCache::Connect(uint32_t slot, uint32_t uop, const Insn& insn) {
  if (insn.falls_through) Edge(slot, uop, insn.end(), false);
  if (insn.target != Insn::kNoTarget) Edge(slot, uop, insn.target, true);
}

void CodeCache::Edge(uint32_t slot, uint32_t uop, int64_t offset, bool target) {
  const int64_t pages_away = offset >= 0 ? offset / BRINK_WALK_PAGE_SIZE : -((-offset + BRINK_WALK_PAGE_SIZE - 1) / BRINK_WALK_PAGE_SIZE);
  const uint16_t within = static_cast<uint16_t>(offset - pages_away * BRINK_WALK_PAGE_SIZE);
  uint32_t to_slot = slot;
  PageKey key = slots_[slot].key;
  if (pages_away != 0) {
    if (key.object == 0) return;
    key.page += static_cast<uint64_t>(pages_away);
    to_slot = Find(key);
  }
  const uint32_t to = to_slot ? IndexOf(to_slot, within) : 0;
  if (to == 0) {
    if (key.object != 0) waiting_[key].emplace_back(within, Link{uop, target, slot});
    return;
  }
  Publish(target ? &uops_[uop].target : &uops_[uop].next, to);
  if (to_slot != slot) slots_[to_slot].incoming.push_back({uop, target, slot});
}

void CodeCache::Settle(uint32_t slot, uint16_t offset, uint32_t index) {
  auto it = waiting_.find(slots_[slot].key);
  if (it == waiting_.end()) return;
  auto& list = it->second;
  for (size_t i = 0; i < list.size();) {
    if (list[i].first != offset) {
      ++i;
      continue;
    }
    const Link w = list[i].second;
    Publish(w.target ? &uops_[w.uop].target : &uops_[w.uop].next, index);
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
    for (const Link& link : s.incoming) Publish(link.target ? &uops_[link.uop].target : &uops_[link.uop].next, 0u);
    s.incoming.clear();
    for (uint16_t& entry : pages_[slot].entry) Publish(&entry, uint16_t{0});
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
    for (uint32_t chunk : slots_[slot].chunks) {
      std::memset(&uops_[chunk], 0, BRINK_WALK_CHUNK * sizeof(brink_uop));
      free_chunks_.push_back(chunk);
      --stats_.chunks;
    }
    slots_[slot] = Slot{};
    free_slots_.push_back(slot);
  }
  unlinked_.clear();
}

}  // namespace brink::walk
