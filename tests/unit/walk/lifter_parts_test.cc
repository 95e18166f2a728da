// Lifting a page in parts finds what lifting it whole finds. On real code: this program's and the C library's text.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "walk/code_cache.h"
#include "walk/lifter.h"

namespace brink::walk {
namespace {

// Pages of every executable file mapping of this process, each with the head of the next one.
std::vector<std::vector<uint8_t>> RealPages(size_t most_per_mapping) {
  std::vector<std::vector<uint8_t>> pages;
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (maps && std::fgets(line, sizeof line, maps)) {
    unsigned long start, end;
    char rights[5];
    if (std::sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 || rights[0] != 'r' || rights[2] != 'x' || !std::strchr(line, '/')) continue;
    const size_t count = (end - start) / BRINK_WALK_PAGE_SIZE - 1, step = std::max<size_t>(1, count / most_per_mapping);
    for (size_t i = 0; i < count; i += step) {
      const auto* at = reinterpret_cast<const uint8_t*>(start + i * BRINK_WALK_PAGE_SIZE);
      pages.emplace_back(at, at + BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL);
    }
  }
  if (maps) std::fclose(maps);
  return pages;
}

std::map<uint16_t, std::string> ByOffset(const std::vector<Insn>& insns) {
  std::map<uint16_t, std::string> found;
  for (const Insn& insn : insns) found[insn.offset] = std::string(reinterpret_cast<const char*>(&insn.uop), sizeof insn.uop) + std::to_string(insn.target);
  return found;
}

// Offsets of a few instructions of the page, found by a sweep.
std::vector<uint16_t> Starts(const Lifter& lifter, std::span<const uint8_t> code) {
  std::vector<bool> done(BRINK_WALK_PAGE_SIZE, false);
  Lifter::SweepState state;
  std::vector<uint16_t> starts;
  const auto swept = lifter.Sweep(code, done, &state, BRINK_WALK_PAGE_SIZE);
  for (size_t i = 20; i < swept.size(); i += 200) starts.push_back(swept[i].offset);
  return starts;
}

TEST(LifterParts, BoundedPagesAddUpToTheWholePage) {
  const Lifter lifter;
  size_t instructions = 0;
  for (const auto& code : RealPages(20)) {
    for (uint16_t start : Starts(lifter, code)) {
      std::vector<bool> whole_done(BRINK_WALK_PAGE_SIZE, false), parts_done = whole_done;
      const auto whole = ByOffset(lifter.Page(code, start, whole_done));
      std::vector<Insn> parts;
      std::vector<uint16_t> left = {start};
      for (size_t next = 0; next < left.size(); ++next) {
        const auto part = lifter.Page(code, left[next], parts_done, 7, &left);
        EXPECT_LE(part.size(), 7u);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(ByOffset(parts), whole);
      EXPECT_EQ(parts.size(), whole.size());
      instructions += whole.size();
    }
  }
  EXPECT_GT(instructions, 1000u);
}

TEST(LifterParts, SweepsInPartsAddUpToTheWholeSweep) {
  const Lifter lifter;
  size_t instructions = 0;
  for (const auto& code : RealPages(40)) {
    std::vector<bool> whole_done(BRINK_WALK_PAGE_SIZE, false), parts_done = whole_done;
    Lifter::SweepState whole_state, state;
    const auto whole = lifter.Sweep(code, whole_done, &whole_state, BRINK_WALK_PAGE_SIZE);
    std::vector<Insn> parts;
    for (int64_t to = 64; to <= BRINK_WALK_PAGE_SIZE; to += 64) {
      const auto part = lifter.Sweep(code, parts_done, &state, to);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(ByOffset(parts), ByOffset(whole));
    instructions += whole.size();
  }
  EXPECT_GT(instructions, 1000u);
}

// Many small parts put many blocks into a line: nothing may be lost by that.
TEST(LifterParts, ACacheFilledInPartsHasWhatOneFilledAtOnceHas) {
  std::vector<brink_uop> uops_a(1 << 14), uops_b(1 << 14);
  std::vector<brink_walk_page> pages_a(4), pages_b(4);
  size_t instructions = 0, in_pieces = 0, seen = 0;
  for (const auto& code : RealPages(10)) {
    ++seen;
    bool fits = true;
    std::fill(uops_a.begin(), uops_a.end(), brink_uop{});
    std::fill(uops_b.begin(), uops_b.end(), brink_uop{});
    CodeCache whole(uops_a, pages_a), parts(uops_b, pages_b);
    const auto a = whole.AddPage({1, 1}, code), b = parts.AddPage({1, 1}, code);
    ASSERT_TRUE(a.ok() && b.ok());
    for (uint16_t start : Starts(Lifter(), code)) {
      ASSERT_TRUE(whole.Lift(*a, start, code).ok());
      std::vector<uint16_t> left = {start};
      for (size_t next = 0; next < left.size() && next < 100000; ++next) {
        std::vector<WayOut> ways;
        const auto lifted = parts.Lift(*b, left[next], code, &ways, 24);
        // A line of many short instructions may come to more blocks than one may have: known, and rare.
        fits &= lifted.ok();
        ASSERT_TRUE(lifted.ok() || absl::IsFailedPrecondition(lifted.status())) << lifted.status();
        for (const WayOut& way : ways) {
          if (!way.through_pointer && way.offset >= 0 && way.offset < BRINK_WALK_PAGE_SIZE) left.push_back(static_cast<uint16_t>(way.offset));
        }
      }
    }
    in_pieces += !fits;
    for (uint16_t offset = 0; fits && offset < BRINK_WALK_PAGE_SIZE; ++offset) {
      ASSERT_EQ(parts.IsLifted(*b, offset), whole.IsLifted(*a, offset)) << offset;
      instructions += whole.IsLifted(*a, offset);
    }
  }
  EXPECT_GT(instructions, 1000u);
  EXPECT_LE(in_pieces * 10, seen);
}

// Link of the instruction at an offset, found as the walker finds it (bpf/walk/code.h). 0: not lifted.
uint32_t Entry(std::span<const brink_uop> uops, const brink_walk_page& page, int64_t offset) {
  const uint64_t bit = uint64_t{1} << (offset % BRINK_WALK_CODE_LINE);
  uint32_t head = BRINK_WALK_FIRST_HEAD;
  for (uint32_t at = page.line[offset / BRINK_WALK_CODE_LINE]; at != 0;) {
    const auto& block = reinterpret_cast<const brink_walk_block&>(uops[at]);
    if (block.lifted & bit) {
      const auto below = [&](uint64_t bits) { return static_cast<uint32_t>(std::popcount(bits & (bit - 1))); };
      return at << BRINK_LINK_SHIFT | (head + below(block.lifted) + below(block.more));
    }
    at = reinterpret_cast<const brink_walk_block_ways&>(uops[at + 1]).more;
    head = BRINK_WALK_MORE_HEAD;
  }
  return 0;
}

// The way that execution goes from the micro-op of a link when it falls through (bpf/walk/env.h).
uint32_t WayOn(std::span<const brink_uop> uops, uint32_t link) {
  const uint32_t block = link >> BRINK_LINK_SHIFT, unit = block + (link & BRINK_LINK_PLACE);
  if (uops[unit].len & BRINK_UOP_MORE) return reinterpret_cast<const brink_uop_more&>(uops[unit + 1]).next;
  if (uops[unit].len & BRINK_UOP_LAST) return reinterpret_cast<const brink_walk_block_ways&>(uops[block + 1]).end;
  return link + 1;
}

// A way that is left open is exact, but looked up each time: none may be where both ends are lifted.
TEST(LifterParts, WhatFallsThroughLeadsToTheInstructionBehindIt) {
  const Lifter lifter;
  std::vector<brink_uop> uops(1 << 15);
  std::vector<brink_walk_page> pages(4);
  size_t ways = 0, second_units = 0;
  for (const auto& code : RealPages(20)) {
    std::fill(uops.begin(), uops.end(), brink_uop{});
    std::fill(pages.begin(), pages.end(), brink_walk_page{});
    CodeCache cache(uops, pages);
    const auto slot = cache.AddPage({1, 1}, code);
    ASSERT_TRUE(slot.ok());
    auto more = cache.LiftRest(*slot, code);
    while (more.ok() && *more) more = cache.LiftRest(*slot, code);
    ASSERT_TRUE(more.ok()) << more.status();
    Lifter::SweepState state;
    std::vector<bool> done(BRINK_WALK_PAGE_SIZE, false);
    for (const Insn& insn : lifter.Sweep(code, done, &state, BRINK_WALK_PAGE_SIZE)) {
      const uint32_t here = Entry(uops, pages[*slot], insn.offset);
      const uint32_t behind = insn.end() < BRINK_WALK_PAGE_SIZE ? Entry(uops, pages[*slot], insn.end()) : 0;
      if (here == 0 || behind == 0 || !insn.falls_through) continue;
      EXPECT_EQ(WayOn(uops, here), behind) << insn.offset;
      ++ways;
      second_units += (uops[(here >> BRINK_LINK_SHIFT) + (here & BRINK_LINK_PLACE)].len & BRINK_UOP_MORE) != 0;
    }
  }
  EXPECT_GT(ways, 1000u);
  EXPECT_GT(second_units, 100u);
}

}  // namespace
}  // namespace brink::walk
