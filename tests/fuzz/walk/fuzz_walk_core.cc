// Arbitrary code on arbitrary states: lifter and core against themselves and against another decoder.
//
// An input is eight bytes of seed (registers, memory, limits) and machine code. Checked of every walk:
//  - it ends, within its limits;
//  - a walk that knows less goes the same way and never contradicts one that knows everything;
//  - a walk that is stopped at each absent page and resumed there ends in the same state (task mode does that);
//  - each record is a branch of its kind to its target, and what lies between two records is a straight line, by the
//    decoder of the exact sources, which shares nothing with the lifter.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/branch.h"
#include "decode/flow.h"
#include "support/walk_state.h"
#include "walk/code_cache.h"
#include "walk/host_walker.h"

namespace brink::walk_test {
namespace {

constexpr size_t kCodeBytes = kCodePages * 4096, kDataBytes = kDataPages * 4096;

[[noreturn]] void Fail(const char* what, uint64_t a = 0, uint64_t b = 0) {
  std::fprintf(stderr, "%s: %llx %llx\n", what, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
  std::abort();
}

struct Walked {
  std::unique_ptr<brink_walk> state = std::make_unique<brink_walk>();
  std::unique_ptr<brink_walk_out> out = std::make_unique<brink_walk_out>();

  // Oldest first.
  const brink_branch& branch(uint32_t i) const { return out->branch[state->depth - 1 - i]; }
  uint64_t ip() const { return state->reg[BRINK_WREG_IP].val; }
};

class World {
 public:
  World(const uint8_t* input, size_t size) : code_(kCodeBytes, 0xcc), data_(kDataBytes), uops_(4 * kCodeBytes), pages_(kCodePages + 2), cache_(uops_, pages_) {
    uint64_t seed = 0;
    std::memcpy(&seed, input, std::min<size_t>(size, 8));
    size_t n = size > 8 ? std::min(size - 8, kCodeBytes) : 0;
    // About the middle, so that it crosses into the second page now and then.
    at_ = 4096 - std::min<size_t>(n / 2, 4096);
    if (n) std::memcpy(code_.data() + at_, input + 8, std::min(n, kCodeBytes - at_));
    StateMaker maker(seed);
    maker.Data(data_);
    config_ = maker.Config();
    walk::CoreBegin(start_.get(), config_);
    maker.State(start_.get(), true);
    start_->reg[BRINK_WREG_IP].val = kCodeBase + at_;
  }

  const brink_walk& start() const { return *start_; }
  const brink_walk_config& config() const { return config_; }

  void Walk(const brink_walk& from, Walked* to, bool absent = false) {
    std::set<uint64_t> present;
    *to->state = from;
    walk::CoreEnvironment env;
    env.uops = uops_;
    env.pages = pages_;
    env.read = [&](uint64_t address, void* out, size_t size) { return (!absent || present.contains(address >> 12)) && Read(address, out, size); };
    env.translate = [this](uint64_t, uint64_t address) { return cache_.Find({1, address >> 12}); };
    for (;;) {
      walk::CoreRun(env, to->state.get(), to->out.get());
      brink_walk& w = *to->state;
      if (w.stop == BRINK_STOP_MISS) {
        // Begun anew, so that what is compared does not depend on what had been lifted before.
        if (!Lift(w.miss_address)) return;
        present.clear();
        *to->state = from;
      } else if (w.stop == BRINK_STOP_FAULT && absent && present.insert(w.fault_address >> 12).second) {
        Resume(&w);
      } else {
        return;
      }
    }
  }

  bool Read(uint64_t address, void* to, size_t size) const {
    const uint8_t* from = nullptr;
    if (address >= kCodeBase && address < kCodeBase + kCodeBytes && size <= kCodeBase + kCodeBytes - address) from = code_.data() + (address - kCodeBase);
    if (address >= kDataBase && address < kDataBase + kDataBytes && size <= kDataBase + kDataBytes - address) from = data_.data() + (address - kDataBase);
    if (!from) return false;
    std::memcpy(to, from, size);
    return true;
  }

 private:
  // What task mode does once the page is there.
  static void Resume(brink_walk* w) {
    w->stop = 0;
    w->pc = 0;
    w->block = 0;
    w->ret_top = 0;
    w->next_clock = w->steps;
    for (brink_walk_tlb& entry : w->tlb) entry.gen = 0;
    for (brink_walk_valid& entry : w->valid) entry.address = 0;
  }

  bool Lift(uint64_t address) {
    uint64_t page = address & ~uint64_t{4095};
    if (page < kCodeBase || page >= kCodeBase + kCodeBytes) return false;
    uint32_t slot = cache_.Find({1, page >> 12});
    const std::span<const uint8_t> code(code_.data() + (page - kCodeBase), std::min<size_t>(4096 + BRINK_WALK_TAIL, kCodeBase + kCodeBytes - page));
    if (slot == 0) {
      auto added = cache_.AddPage({1, page >> 12}, code);
      if (!added.ok()) Fail("no room for a page");
      slot = *added;
    }
    auto lifted = cache_.Lift(slot, static_cast<uint16_t>(address & 4095), code);
    return lifted.ok() && *lifted > 0;
  }

  std::vector<uint8_t> code_, data_;
  size_t at_ = 0;
  std::vector<brink_uop> uops_;
  std::vector<brink_walk_page> pages_;
  walk::CodeCache cache_;
  brink_walk_config config_{};
  std::unique_ptr<brink_walk> start_ = std::make_unique<brink_walk>();
};

void CheckLimits(const World& world, const Walked& w) {
  if (w.state->stop == 0) Fail("a walk without an end");
  if (w.state->steps > world.config().max_steps) Fail("more steps than allowed", w.state->steps, world.config().max_steps);
  if (w.state->nr > world.config().depth) Fail("more branches than asked for", w.state->nr, world.config().depth);
  for (int i = 0; i < 16; ++i) {
    if (w.state->reg[i].val & w.state->reg[i].unk) Fail("unknown bits with a value", i, w.state->reg[i].val);
  }
}

// Neither of two values contradicts the other where both are known.
void CheckRegisters(const brink_walk& a, const brink_walk& b) {
  auto check = [&](int i) {
    if ((a.reg[i].val ^ b.reg[i].val) & ~a.reg[i].unk & ~b.reg[i].unk) Fail("register", static_cast<uint64_t>(i), a.reg[i].val ^ b.reg[i].val);
  };
  for (int i = 0; i < 16; ++i) check(i);
  for (int i = 0; i < 8; ++i) check(BRINK_WREG_K0 + i);
  if ((a.flags ^ b.flags) & a.flags_known & b.flags_known & kArithmeticFlags) Fail("flags", a.flags, b.flags);
  for (int i = 0; i < 32; ++i) {
    uint64_t both = a.vknown[i] & b.vknown[i];
    for (int j = 0; j < 64; ++j) {
      if ((both >> j & 1) && a.vreg[i].data[j] != b.vreg[i].data[j]) Fail("vector register", static_cast<uint64_t>(i), static_cast<uint64_t>(j));
    }
  }
}

void CheckMemory(const World& world, const brink_walk& a, const brink_walk& b) {
  auto believed = [&](const brink_walk& w, uint64_t address) -> std::optional<uint8_t> {
    WalkByte byte = ByteOf(w, address);
    if (byte.held && !byte.known) return std::nullopt;
    if (byte.held) return byte.value;
    uint8_t raw;
    return world.Read(address, &raw, 1) ? std::optional(raw) : std::nullopt;
  };
  for (const brink_walk_line& line : a.mem) {
    if ((line.tag & BRINK_WALK_TAG_GEN) != a.gen) continue;
    for (uint64_t i = 0; i < 64; ++i) {
      auto x = believed(a, (line.tag & ~uint64_t{63}) + i), y = believed(b, (line.tag & ~uint64_t{63}) + i);
      if (x && y && *x != *y) Fail("memory", (line.tag & ~uint64_t{63}) + i, *x ^ *y);
    }
  }
}

// The first n branches are the same.
void CheckPath(const Walked& a, const Walked& b, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (std::memcmp(&a.branch(i), &b.branch(i), sizeof(brink_branch)) != 0) Fail("branch", a.branch(i).to, b.branch(i).to);
  }
}

// Where a walk may end although one that knows less goes on: it touches memory that the other does not.
bool EndsByMemory(uint32_t stop) { return stop == BRINK_STOP_FAULT || stop == BRINK_STOP_DEVICE_MEMORY || stop == BRINK_STOP_STORE_FULL; }

void CheckLessKnown(World& world, const Walked& full, uint64_t seed) {
  StateMaker maker(seed ^ 0x5bd1e995);
  auto start = std::make_unique<brink_walk>(world.start());
  for (int i = 0; i < 16; ++i) {
    start->reg[i].unk = maker.OneIn(3) ? (maker.OneIn(2) ? ~uint64_t{0} : maker.Random() & maker.Random()) : 0;
    if (i == 4 && !maker.OneIn(8)) start->reg[i].unk = 0;
    start->reg[i].val &= ~start->reg[i].unk;
  }
  for (int i = 0; i < 8; ++i) {
    auto& k = start->reg[BRINK_WREG_K0 + i];
    k.unk = maker.OneIn(3) ? maker.Random() : 0;
    k.val &= ~k.unk;
  }
  start->flags_known = static_cast<uint32_t>(maker.Random() | maker.Random()) & kArithmeticFlags;
  start->flags &= start->flags_known | ~kArithmeticFlags;
  for (int i = 0; i < 32; ++i) {
    if (maker.OneIn(2)) start->vknown[i] = maker.Random();
    for (int j = 0; j < 64; ++j) {
      if (!(start->vknown[i] >> j & 1)) start->vreg[i].data[j] = 0;
    }
  }
  Walked less;
  world.Walk(*start, &less);
  CheckLimits(world, less);
  if (less.state->nr > full.state->nr && !EndsByMemory(full.state->stop) && full.state->stop != BRINK_STOP_BUDGET) Fail("knows less and goes further", less.state->stop, full.state->stop);
  CheckPath(less, full, std::min(less.state->nr, full.state->nr));

  // The one that knows everything, stopped where the other ended.
  Walked same;
  start = std::make_unique<brink_walk>(world.start());
  start->max_steps = less.state->steps;
  start->next_clock = std::min(start->next_clock, start->max_steps);
  if (less.state->steps == 0) return;
  world.Walk(*start, &same);
  if (same.state->steps != less.state->steps || same.ip() != less.ip() || same.state->nr != less.state->nr) return;
  walk::CoreSettleFlags(same.state.get());
  walk::CoreSettleFlags(less.state.get());
  CheckRegisters(*less.state, *same.state);
  CheckMemory(world, *less.state, *same.state);
}

void CheckResumed(World& world, const Walked& full) {
  Walked resumed;
  world.Walk(world.start(), &resumed, true);
  if (resumed.state->stop != full.state->stop) Fail("resumed: stop", resumed.state->stop, full.state->stop);
  if (resumed.ip() != full.ip()) Fail("resumed: ip", resumed.ip(), full.ip());
  if (resumed.state->steps != full.state->steps) Fail("resumed: steps", resumed.state->steps, full.state->steps);
  if (resumed.state->nr != full.state->nr) Fail("resumed: branches", resumed.state->nr, full.state->nr);
  CheckPath(resumed, full, full.state->nr);
  auto settled = std::make_unique<brink_walk>(*full.state);
  walk::CoreSettleFlags(settled.get());
  walk::CoreSettleFlags(resumed.state.get());
  CheckRegisters(*resumed.state, *settled);
  for (int i = 0; i < 16; ++i) {
    if (resumed.state->reg[i].unk != settled->reg[i].unk) Fail("resumed: unknown bits", static_cast<uint64_t>(i), resumed.state->reg[i].unk);
  }
  CheckMemory(world, *resumed.state, *settled);
}

// Records by the other decoder.
void CheckRecords(const World& world, const Walked& w) {
  if (world.config().kind_mask != BRINK_WALK_ALL_KINDS) return;
  uint64_t ip = world.start().reg[BRINK_WREG_IP].val;
  auto decode = [&](uint64_t at) {
    uint8_t bytes[decode::kMaxInsnBytes];
    size_t size = sizeof bytes;
    while (size > 0 && !world.Read(at, bytes, size)) --size;
    return decode::Decode({bytes, size}, at);
  };
  for (uint32_t i = 0; i < w.state->nr; ++i) {
    const brink_branch& branch = w.branch(i);
    std::optional<decode::Insn> insn;
    while (ip != branch.from) {
      insn = decode(ip);
      if (!insn || ip > branch.from) Fail("no straight line to a branch", ip, branch.from);
      if (insn->flow != decode::Flow::kNext && insn->flow != decode::Flow::kCond) Fail("walked over a branch", ip);
      ip += insn->length;
    }
    insn = decode(ip);
    if (!insn) Fail("a branch that is none", ip);
    Kind kind = decode::KindOf(insn->flow), recorded = static_cast<const BranchEntry&>(branch).kind();
    if (kind != recorded) Fail("kind of a branch", ip, static_cast<uint64_t>(recorded));
    bool direct = insn->flow == decode::Flow::kCond || insn->flow == decode::Flow::kJump || insn->flow == decode::Flow::kCall;
    if (direct && insn->target != branch.to) Fail("target of a branch", insn->target, branch.to);
    ip = branch.to;
  }
}

}  // namespace
}  // namespace brink::walk_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brink::walk_test;
  if (size < 9 || size > 8 + 4096) return 0;
  uint64_t seed;
  std::memcpy(&seed, data, 8);
  World world(data, size);
  Walked full;
  world.Walk(world.start(), &full);
  CheckLimits(world, full);
  CheckRecords(world, full);
  CheckLessKnown(world, full, seed);
  CheckResumed(world, full);
  return 0;
}
