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
  const double uops = static_cast<double>(free_chunks_.size()) * BRINK_WALK_CHUNK / static_cast<double>(uops_.size());
  return std::min(pages, uops);
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
  return slot < slots_.size() && slots_[slot].used && offset < BRINK_WALK_PAGE_SIZE && IndexOf(slot, offset) != 0;
}

brink_walk_block& CodeCache::BlockAt(uint32_t at) const { return reinterpret_cast<brink_walk_block&>(uops_[at]); }

std::span<const uint8_t> CodeCache::LineCode(uint32_t slot, uint32_t line) const {
  const uint32_t at = slot < pages_.size() && line < BRINK_WALK_PAGE_LINES ? pages_[slot].line[line] : 0;
  if (at == 0) return {};
  return {reinterpret_cast<const uint8_t*>(&uops_[at + 1]), BRINK_WALK_CODE_LINE};
}

// As the walker finds it (walk_entry in bpf/walk/code.h).
uint32_t CodeCache::IndexOf(uint32_t slot, int64_t offset) const {
  const uint64_t bit = uint64_t{1} << (offset % BRINK_WALK_CODE_LINE);
  uint32_t head = BRINK_WALK_FIRST_HEAD;
  for (uint32_t at = pages_[slot].line[offset / BRINK_WALK_CODE_LINE]; at != 0; at = BlockAt(at).more, head = BRINK_WALK_MORE_HEAD) {
    const uint64_t lifted = BlockAt(at).lifted;
    if (lifted & bit) return at + head + static_cast<uint32_t>(std::popcount(lifted & (bit - 1)));
  }
  return 0;
}

uint32_t CodeCache::Allocate(uint32_t slot, uint32_t units) {
  Slot& s = slots_[slot];
  auto fits = std::find_if(s.chunks.begin(), s.chunks.end(), [&](const Chunk& c) { return c.filled + units <= BRINK_WALK_CHUNK; });
  if (fits == s.chunks.end()) {
    if (free_chunks_.empty()) return 0;
    s.chunks.push_back({.at = free_chunks_.back(), .filled = 0});
    free_chunks_.pop_back();
    ++stats_.chunks;
    fits = s.chunks.end() - 1;
  }
  const uint32_t at = fits->at + fits->filled;
  fits->filled += units;
  return at;
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

Status CodeCache::PlaceLine(uint32_t slot, uint32_t line, std::span<const uint8_t> bytes, std::span<Insn> insns, std::vector<Fresh>* fresh,
                          std::vector<uint32_t>* placed) {
  __u32* from = &pages_[slot].line[line];
  uint32_t first = *from, blocks = 0;
  if (first != 0 && std::memcmp(&uops_[first + 1], bytes.data(), BRINK_WALK_CODE_LINE) != 0) return FailedPrecondition("code page has other bytes");
  for (uint32_t at = *from; at != 0; at = BlockAt(at).more, ++blocks) from = &BlockAt(at).more;
  while (first == 0 || !insns.empty()) {
    const uint32_t head = first == 0 ? BRINK_WALK_FIRST_HEAD : BRINK_WALK_MORE_HEAD;
    const std::span<Insn> here = insns.first(std::min<size_t>(insns.size(), BRINK_WALK_CHUNK - head));
    insns = insns.subspan(here.size());
    if (++blocks > BRINK_WALK_BLOCKS) return FailedPrecondition("code line is in too many pieces");
    const uint32_t at = Allocate(slot, head + static_cast<uint32_t>(here.size()));
    if (at == 0) return ResourceExhausted("code cache: no free micro-ops");
    if (first == 0) {
      first = at;
      std::memcpy(&uops_[at + 1], bytes.data(), BRINK_WALK_CODE_LINE);
    }
    brink_walk_block block{};
    block.line = slot * BRINK_WALK_PAGE_LINES + line;
    for (size_t i = 0; i < here.size(); ++i) {
      Insn& insn = here[i];
      block.lifted |= uint64_t{1} << (insn.offset % BRINK_WALK_CODE_LINE);
      insn.uop.line = first;
      if (insn.offset % BRINK_WALK_CODE_LINE + insn.uop.len > BRINK_WALK_CODE_LINE) insn.uop.line |= BRINK_UOP_LINE_CROSSES;
      uops_[at + head + i] = insn.uop;
      placed->push_back(at + head + static_cast<uint32_t>(i));
      if (insn.uop.op == BRINK_OP_STOP && insn.uop.aux == BRINK_STOP_UNSUPPORTED) ++stats_.unsupported;
    }
    BlockAt(at) = block;
    fresh->push_back({.from = from, .at = at});
    from = &BlockAt(at).more;
  }
  return OkStatus();
}

// Gives instructions of a page micro-ops and makes them findable.
StatusOr<uint32_t> CodeCache::Place(uint32_t slot, std::span<const uint8_t> code, std::vector<Insn> lifted, std::vector<uint16_t>* unplaced) {
  if (lifted.empty()) return 0u;
  std::sort(lifted.begin(), lifted.end(), [](const Insn& a, const Insn& b) { return a.offset < b.offset; });
  std::vector<uint32_t> placed;
  placed.reserve(lifted.size());
  std::vector<Fresh> fresh;
  auto bytes = [&](uint32_t line) { return code.subspan(line * BRINK_WALK_CODE_LINE, BRINK_WALK_CODE_LINE); };
  auto line_of = [](const Insn& insn) { return insn.offset / uint32_t{BRINK_WALK_CODE_LINE}; };
  Status fits = OkStatus();
  for (size_t begin = 0, end; begin < lifted.size() && fits.ok(); begin = end) {
    const uint32_t line = line_of(lifted[begin]);
    for (end = begin; end < lifted.size() && line_of(lifted[end]) == line; ++end) {
    }
    const std::span<Insn> here = std::span(lifted).subspan(begin, end - begin);
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
  for (size_t i = 0; i < placed.size(); ++i) Settle(slot, lifted[i].offset, placed[i]);
  stats_.instructions += placed.size();
  if (placed.empty()) RETURN_IF_ERROR(fits);
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
    for (const Chunk& chunk : slots_[slot].chunks) {
      std::memset(&uops_[chunk.at], 0, BRINK_WALK_CHUNK * sizeof(brink_uop));
      free_chunks_.push_back(chunk.at);
      --stats_.chunks;
    }
    slots_[slot] = Slot{};
    free_slots_.push_back(slot);
  }
  unlinked_.clear();
}

}  // namespace brink::walk
