#include "walk/lifter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "walk/a64_lift.h"
#include "walk/decoded.h"

namespace brink::walk {

LiftOptions LiftOptions::Host() {
  LiftOptions options;
#if defined(__aarch64__)
  options.machine = Machine::kA64;
  // xpaclri, a hint where codes do not exist, takes the place of the code away.
  uint64_t stripped, dczid;
  asm("mov x30, %1\n\thint #7\n\tmov %0, x30" : "=r"(stripped) : "r"(kAllAddressBits) : "x30");
  options.address_bits = AddressBitsByStripped(stripped);
  asm("mrs %0, dczid_el0" : "=r"(dczid));
  options.zeroes = ZeroedByDczid(dczid);
#elif defined(__x86_64__)
  __builtin_cpu_init();
  options.bmi1 = __builtin_cpu_supports("bmi");
  options.lzcnt = __builtin_cpu_supports("lzcnt");
#endif
  return options;
}

struct Lifter::Impl {
  ZydisDecoder decoder;
  LiftOptions options;
};

Lifter::Lifter(const LiftOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  BRINK_CHECK(ZYAN_SUCCESS(ZydisDecoderInit(&impl_->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)));
}

Lifter::~Lifter() = default;

namespace {

Insn Unsupported(uint8_t length) {
  Insn insn;
  insn.uop.op = BRINK_OP_STOP;
  insn.uop.aux = BRINK_STOP_UNSUPPORTED;
  insn.uop.len = length;
  insn.uop.base = insn.uop.index = BRINK_WREG_ZERO;
  return insn;
}

constexpr uint8_t kInt3 = 0xcc;

// Instructions of A64 have four bytes at multiples of four; what else a machine has is one byte at least.
constexpr int64_t kA64Bytes = 4;

std::optional<Insn> OneA64(std::span<const uint8_t> bytes, const LiftOptions& options) {
  if (bytes.size() < kA64Bytes) return std::nullopt;
  return LiftA64(bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24, options);
}

}  // namespace

PackedInsn Pack(const Insn& insn) {
  const MicroOp& from = insn.uop;
  const bool memory = from.flags & BRINK_UOP_MEM, direct = insn.target != Insn::kNoTarget;
  PackedInsn packed;
  brink_uop& u = packed.uop;
  u.op = from.op;
  u.flags = from.flags;
  u.aux = from.aux;
  u.len = from.len;
  u.src = from.src;
  u.index = from.index;
  u.sh = from.sh;
  u.msh = from.msh;
  if (direct) {
    BRINK_CHECK(!memory);  // there is no room for its base
    u.to = from.imm;
    return packed;
  }
  u.dst = from.dst;
  u.src2 = from.src2;
  u.base = from.base;
  u.scale = from.scale;
  u.value = memory ? from.disp : from.imm;
  packed.other = memory ? from.imm : from.disp;
  return packed;
}

std::optional<Insn> Lifter::One(std::span<const uint8_t> bytes) const {
  if (impl_->options.machine == LiftOptions::Machine::kA64) return OneA64(bytes, impl_->options);
  if (bytes.empty() || bytes[0] == kInt3) return std::nullopt;
  Decoded d;
  d.options = impl_->options;
  const ZyanStatus status = ZydisDecoderDecodeFull(&impl_->decoder, bytes.data(), bytes.size(), &d.insn, d.operands);
  if (status == ZYDIS_STATUS_NO_MORE_DATA) return std::nullopt;
  if (!ZYAN_SUCCESS(status)) return Unsupported(1);
  Insn insn;
  insn.uop.base = insn.uop.index = BRINK_WREG_ZERO;
  insn.uop.len = d.insn.length;
  insn.falls_through = true;
  if (!LiftControl(d, &insn) && !LiftInteger(d, &insn) && !LiftVector(d, &insn) && !LiftEffects(d, &insn)) return Unsupported(d.insn.length);
  if (insn.uop.op == BRINK_OP_STOP) insn.falls_through = false;
  return insn;
}

std::vector<Insn> Lifter::Page(std::span<const uint8_t> code, uint16_t offset, std::vector<bool>& done, size_t most,
                               std::vector<uint16_t>* left) const {
  std::vector<Insn> lifted;
  std::vector<int64_t> pending = {offset};
  const int64_t unit = impl_->options.machine == LiftOptions::Machine::kA64 ? kA64Bytes : 1;
  const auto inside = [&](int64_t at) { return at >= 0 && at < BRINK_WALK_PAGE_SIZE && at < static_cast<int64_t>(code.size()); };
  // First come, first lifted: what is near to `offset` comes first on every way.
  size_t next = 0;
  for (; next < pending.size() && lifted.size() < most; ++next) {
    const int64_t at = pending[next];
    if (!inside(at) || at % unit != 0 || done[at]) continue;
    std::optional<Insn> insn = One(code.subspan(at));
    if (!insn) continue;
    done[at] = true;
    insn->offset = static_cast<uint16_t>(at);
    if (insn->target != Insn::kNoTarget) {
      insn->target += at;
      pending.push_back(insn->target);
    }
    if (insn->falls_through) pending.push_back(insn->end());
    lifted.push_back(*insn);
  }
  for (; left && next < pending.size(); ++next) {
    if (inside(pending[next]) && !done[pending[next]]) left->push_back(static_cast<uint16_t>(pending[next]));
  }
  return lifted;
}

namespace {

// Of A64 only the one word: barriers and landing pads are no-operations as well.
bool IsPadding(const Insn& insn, std::span<const uint8_t> code, bool a64) {
  constexpr uint8_t kA64Nop[] = {0x1f, 0x20, 0x03, 0xd5};
  const bool nop = a64 ? std::memcmp(code.data(), kA64Nop, sizeof kA64Nop) == 0 : insn.uop.op == BRINK_OP_NOP;
  return nop || (insn.uop.op == BRINK_OP_STOP && insn.uop.aux == BRINK_STOP_UNSUPPORTED);
}

}  // namespace

std::vector<Insn> Lifter::Sweep(std::span<const uint8_t> code, std::vector<bool>& done, SweepState* state, int64_t to) const {
  // A stream of wrong decoding falls into step with the right one within a few instructions.
  constexpr int64_t kUncertain = 16;
  std::vector<Insn> lifted;
  const int64_t unit = impl_->options.machine == LiftOptions::Machine::kA64 ? kA64Bytes : 1;
  const int64_t end = std::min<int64_t>(BRINK_WALK_PAGE_SIZE, static_cast<int64_t>(code.size()));
  int64_t at = state->at;
  while (at < std::min(end, to)) {
    if (unit == 1 && code[at] == 0 && at + 1 < end && code[at + 1] == 0) {
      at += 2;
      continue;
    }
    std::optional<Insn> insn = One(code.subspan(at));
    state->in_step |= done[at] || unit != 1;
    if (!insn) {
      at += unit;
      continue;
    }
    if (!done[at] && !IsPadding(*insn, code.subspan(at), unit != 1) && (state->in_step || at >= kUncertain)) {
      insn->offset = static_cast<uint16_t>(at);
      if (insn->target != Insn::kNoTarget) insn->target += at;
      done[at] = true;
      lifted.push_back(*insn);
    }
    at += insn->uop.len;
  }
  state->at = at;
  return lifted;
}

}  // namespace brink::walk
