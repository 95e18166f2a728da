#include "walk/host_walker.h"

#include <cstring>

#include "base/check.h"
#include "walk/a64/ops.h"
#include "walk/code_cache.h"

namespace brink::walk {
namespace {

constexpr size_t kUops = 1 << 18;
constexpr size_t kPages = 2048;
constexpr uint64_t kObject = 1;
// Code that changes under the walker again and again ends it.
constexpr int kMaxRelifts = 16;

}  // namespace

struct HostWalker::Impl {
  explicit Impl(const LiftOptions& lift_options) : options(lift_options) { Reset(); }

  void Reset() {
    uops.assign(kUops, brink_uop{});
    pages.assign(kPages, brink_walk_page{});
    cache.emplace(uops, pages, options);
  }

  // Lifts at `address`; 0 if there is nothing to lift.
  uint32_t LiftAt(uint64_t address, const ReadMemory& read) {
    uint8_t code[BRINK_WALK_PAGE_SIZE + BRINK_WALK_TAIL];
    const uint64_t start = address & ~uint64_t{BRINK_WALK_PAGE_SIZE - 1};
    const PageKey key{kObject, start / BRINK_WALK_PAGE_SIZE};
    if (!read(start, code, BRINK_WALK_PAGE_SIZE)) return 0;
    const bool tail = read(start + BRINK_WALK_PAGE_SIZE, code + BRINK_WALK_PAGE_SIZE, BRINK_WALK_TAIL);
    const std::span<const uint8_t> bytes(code, BRINK_WALK_PAGE_SIZE + (tail ? BRINK_WALK_TAIL : 0));
    uint32_t slot = cache->Find(key);
    if (slot != 0 && !cache->SameCode(slot, bytes)) {
      cache->Unlink({&slot, 1});
      cache->Reclaim();
      slot = 0;
    }
    if (slot == 0) {
      auto added = cache->AddPage(key, bytes);
      if (!added.ok()) {
        Reset();  // full: start over, this walk goes on with what it lifts now
        added = cache->AddPage(key, bytes);
      }
      slot = *added;
    }
    const auto within = static_cast<uint16_t>(address & (BRINK_WALK_PAGE_SIZE - 1));
    auto lifted = cache->Lift(slot, within, bytes);
    if (absl::IsResourceExhausted(lifted.status())) {
      Reset();
      auto added = cache->AddPage(key, bytes);
      if (!added.ok()) return 0;
      lifted = cache->Lift(*added, within, bytes);
    }
    return lifted.ok() ? *lifted : 0;
  }

  LiftOptions options;
  std::vector<brink_uop> uops;
  std::vector<brink_walk_page> pages;
  std::optional<CodeCache> cache;
  brink_walk state{};
  std::unique_ptr<brink_walk_out> out = std::make_unique<brink_walk_out>();
};

HostWalker::HostWalker(const LiftOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HostWalker::~HostWalker() = default;

const brink_walk& HostWalker::state() const { return impl_->state; }

std::optional<uint64_t> HostWalker::Gpr(int i) const {
  const brink_walk_reg& reg = impl_->state.reg[i & 15];
  if (reg.unk) return std::nullopt;
  return reg.val;
}

void HostWalker::ForgetCode() { impl_->Reset(); }

namespace {

void Load(const Registers& from, brink_walk* w) {
  for (int i = 0; i < 16; ++i) w->reg[i] = {from.gpr[i], 0};
  w->reg[BRINK_WREG_IP] = {from.ip, 0};
  w->flags = static_cast<uint32_t>(from.flags);
  if (from.fs_base) w->reg[BRINK_WREG_FS] = {*from.fs_base, 0};
  if (from.gs_base) w->reg[BRINK_WREG_GS] = {*from.gs_base, 0};
  if (from.vector) {
    std::memcpy(w->vreg, from.vector->zmm, sizeof w->vreg);
    std::memcpy(w->vknown, from.vector->known, sizeof w->vknown);
    for (int i = 0; i < 8; ++i) w->reg[BRINK_WREG_K0 + i] = {from.vector->k[i], 0};
  }
}

void Load(const A64Registers& from, brink_walk* w) {
  for (int i = 0; i < 31; ++i) w->reg[BRINK_A64_REG(i)] = {from.x[i], 0};
  w->reg[BRINK_A64_SP] = {from.sp, 0};
  w->reg[BRINK_WREG_IP] = {from.ip, 0};
  w->flags = static_cast<uint32_t>(from.pstate) & 0xf0000000;
  if (from.tpidr) w->reg[BRINK_WREG_FS] = {*from.tpidr, 0};
  if (!from.vector) return;
  for (int i = 0; i < 32; ++i) {
    std::memcpy(w->vreg[i].data, (*from.vector)[i].data(), 16);
    w->vknown[i] = 0xffff;
  }
}

void LoadRanges(const WalkOptions& options, brink_walk* w) {
  w->proc = {};
  for (const brink_walk_range& range : options.ranges) {
    if (w->proc.nr_ranges < BRINK_WALK_RANGES) w->proc.range[w->proc.nr_ranges++] = range;
  }
}

brink_walk_config Config(const WalkOptions& options) {
  brink_walk_config config{};
  config.depth = options.depth;
  config.max_steps = options.max_steps;
  config.kind_mask = options.kind_mask;
  return config;
}

}  // namespace

WalkResult HostWalker::Walk(const Registers& registers, const ReadMemory& read, const WalkOptions& options) {
  BRINK_CHECK(impl_->options.machine == LiftOptions::Machine::kX86_64);
  CoreBegin(&impl_->state, Config(options));
  Load(registers, &impl_->state);
  return Run(read, options);
}

WalkResult HostWalker::Walk(const A64Registers& registers, const ReadMemory& read, const WalkOptions& options) {
  BRINK_CHECK(impl_->options.machine == LiftOptions::Machine::kA64);
  CoreBeginA64(&impl_->state, Config(options));
  Load(registers, &impl_->state);
  return Run(read, options);
}

WalkResult HostWalker::Run(const ReadMemory& read, const WalkOptions& options) {
  brink_walk* w = &impl_->state;
  LoadRanges(options, w);
  const auto run = impl_->options.machine == LiftOptions::Machine::kA64 ? CoreRunA64 : CoreRun;

  CoreEnvironment env;
  env.uops = impl_->uops;
  env.pages = impl_->pages;
  env.read = [&](uint64_t address, void* to, size_t size) { return read(address, to, size); };
  env.access = options.access;
  w->mm = options.access ? 1 : 0;
  for (brink_walk_vma& vma : w->vma) vma.size = 0;
  env.translate = [&](uint64_t, uint64_t address) { return impl_->cache->Find({kObject, address / BRINK_WALK_PAGE_SIZE}); };

  WalkResult result;
  int relifts = 0;
  for (;;) {
    run(env, w, impl_->out.get());
    const bool changed = w->stop == BRINK_STOP_CODE_CHANGED;
    if ((w->stop != BRINK_STOP_MISS && !changed) || w->nr >= w->depth) break;
    if (changed && ++relifts > kMaxRelifts) break;
    const uint32_t lifted = impl_->LiftAt(w->miss_address, read);
    if (lifted == 0 && !changed) break;
    result.lifted += lifted;
    // Indices kept in the state may be those of code that is gone.
    w->stop = 0;
    w->pc = 0;
    w->block = 0;
    w->ret_top = 0;
    for (brink_walk_tlb& entry : w->tlb) entry.gen = 0;
    for (brink_walk_valid& entry : w->valid) entry.address = 0;
  }
  for (uint32_t i = w->depth; i-- > w->depth - w->nr;) {
    BranchEntry entry;
    static_cast<brink_branch&>(entry) = impl_->out->branch[i];
    result.branches.push_back(entry);
  }
  result.stop = static_cast<brink_stop>(w->stop);
  result.end_ip = w->reg[BRINK_WREG_IP].val;
  result.fault_address = w->fault_address;
  result.steps = w->steps;
  return result;
}

}  // namespace brink::walk
