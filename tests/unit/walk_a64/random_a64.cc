#include "random_a64.h"

#include <cstring>

#include "walk/a64/vops.h"

namespace brink::walk_test {
namespace {

using a64::Form;

constexpr uint64_t kAddress = 0x00ffffffffffffffull;

// General register of the machine by its number in the walker's file; 31 is the stack pointer, 32 none.
uint32_t MachineRegister(uint32_t number) { return number < 16 ? number : number >= 24 && number <= BRINK_A64_SP ? number - 8 : 32; }

}  // namespace

uint64_t A64Source::Interesting() {
  const uint64_t r = Random();
  switch (Random() % 8) {
    case 0: return r % 5;
    case 1: return -(r % 5);
    case 2: return uint64_t{1} << (r & 63);
    case 3: return (uint64_t{1} << (r & 63)) - 1;
    case 4: return r & 0xff;
    case 5: return (r & 0x8080808080808080ull) | 0x7f;
    default: return r;
  }
}

uint32_t A64Source::Word(const a64::Row& row) {
  uint32_t word = row.value | (static_cast<uint32_t>(Random()) & ~row.mask);
  // Small register numbers meet more often, and conditions and shifts by nothing as well.
  if (Random() % 4 == 0) word = (word & ~(0x3e0u & ~row.mask)) | ((word & 31) << 5 & ~row.mask);
  return word;
}

bool A64Source::Lift(uint32_t word, walk::Insn* out) {
  uint8_t bytes[4];
  std::memcpy(bytes, &word, 4);
  const auto insn = lifter_.One(bytes);
  if (!insn || insn->uop.op == BRINK_A64_STOP) return false;
  *out = *insn;
  return true;
}

// Not what would stop the machine, or look at more than the state of a case.
bool A64Source::MayRun(uint32_t word, const walk::Insn& insn) {
  switch (a64::FormOf(word)) {
    case Form::kSys: return insn.uop.op == BRINK_A64_ZERO;
    case Form::kWaitTimeout: return false;
    case Form::kHint:
      if (a64::Bits(word, 11, 5) == 2 || a64::Bits(word, 11, 5) == 3) return false;  // wfe, wfi
      break;
    case Form::kPstate: return a64::Bits(word, 18, 16) == 0;
    case Form::kMemoryTag: return false;
    default: break;
  }
  // A code that the machine's keys do not give: the address comes out spoilt. See MakePair.
  return insn.uop.op != BRINK_A64_PAC || insn.uop.aux != BRINK_A64_PAC_CHECK;
}

void A64Source::SetGeneral(A64Case* out, uint32_t reg, uint64_t value) {
  const uint32_t n = MachineRegister(reg);
  if (n < 31) {
    out->input.state.x[n] = value;
    out->x_unknown[n] = 0;
  } else if (n == 31) {
    out->input.state.sp = value;
  }
}

void A64Source::Fill(A64Case* out) {
  a64_state& s = out->input.state;
  out->all_known = Random() % 2 == 0;
  for (auto& x : s.x) x = Interesting();
  s.sp = A64_WINDOW + 256 + Random() % 32 * 16;
  s.pstate = Random() & 0xf0000000;
  s.tpidr = Random();
  for (auto& v : s.v) {
    for (int i = 0; i < 16; i += 8) {
      uint64_t value = Random() % 3 ? Random() : Interesting();
      if (Random() % 4 == 0) value &= 0x00ffff0000ff00ffull;
      std::memcpy(v + i, &value, 8);
    }
  }
  // Vectors that are alike in part.
  if (Random() % 2) std::memcpy(s.v[Random() % 32], s.v[Random() % 32], 8);
  for (size_t i = 0; i < A64_WINDOW_SIZE; i += 8) {
    const uint64_t value = Random() % 2 ? Random() : s.x[Random() % 31];
    std::memcpy(s.memory + i, &value, 8);
  }
  for (uint64_t& unknown : out->x_unknown) unknown = 0;
  for (uint16_t& known : out->vector_known) known = 0xffff;
  for (uint64_t& known : out->memory_known) known = ~uint64_t{0};
  out->flags_unknown = 0;
  if (out->all_known) return;
  for (uint64_t& unknown : out->x_unknown) unknown = Random() % 3 ? 0 : Random() % 2 ? Random() & Random() : 0xffull << (Random() & 56);
  for (uint16_t& known : out->vector_known) known = static_cast<uint16_t>(Random() % 2 ? ~0u : Random() | Random());
  for (uint64_t& known : out->memory_known) known = Random() % 2 ? ~uint64_t{0} : Random() | Random() | Random();
  out->flags_unknown = static_cast<uint32_t>(Random() & Random()) & 0xf0000000;
}

// Addresses into the window, targets to where only breakpoints are.
void A64Source::Place(uint32_t slot, A64Case* out) {
  const walk::MicroOp& u = out->lifted[0].uop;
  if (u.op == BRINK_A64_BR || u.op == BRINK_A64_BLR || u.op == BRINK_A64_RET) {
    uint64_t to = A64_CODE + Random() % 0x4000 * 4;
    if (Random() % 4 == 0) to |= Random() << 56;  // the top byte is ignored
    if (u.aux == 0) SetGeneral(out, u.src, to);
  }
  (void)slot;
  if (!(u.flags & BRINK_UOP_MEM) || u.base == BRINK_WREG_IP) return;
  uint64_t where = A64_WINDOW + 128 + Random() % (A64_WINDOW_SIZE - 256);
  if (Random() % 3 == 0) where = (where & ~63ull) + 56 + Random() % 8;
  if (Random() % 2) where &= ~15ull;
  const bool indexed = u.index != BRINK_WREG_ZERO;
  if (u.base == BRINK_A64_SP) {
    if (!indexed) return;
    const uint64_t offset = (Random() % 64) - 32;
    SetGeneral(out, u.index, offset);
    return;
  }
  if (indexed && u.index == u.base) {
    SetGeneral(out, u.base, (where - static_cast<uint64_t>(int64_t{u.disp})) / (1 + (uint64_t{1} << u.scale)));
    return;
  }
  uint64_t base = where - static_cast<uint64_t>(int64_t{u.disp});
  if (indexed) {
    uint64_t index = (Random() % 32) - (u.flags & BRINK_A64_INDEX32 ? 0 : 16);
    base -= index << u.scale;
    if (u.flags & (BRINK_A64_INDEX32 | BRINK_A64_INDEX32S)) index = (index & 0xffffffff) | Random() << 32;
    SetGeneral(out, u.index, index);
  }
  if (Random() % 4 == 0) base = (base & kAddress) | Random() << 56;
  SetGeneral(out, u.base, base);
  // What an atomic compares is often what is there.
  if ((u.op == BRINK_A64_SWAP_IF || u.op == BRINK_A64_SWAP_PAIR) && Random() % 2) {
    const uint32_t first = MachineRegister(u.dst);
    const uint64_t at = (where - A64_WINDOW) & ~15ull;
    for (uint32_t i = 0; i < 2 && first + i < 31; ++i) std::memcpy(out->input.state.memory + at + 8 * i, &out->input.state.x[first + i], 8);
  }
}

bool A64Source::Make(const a64::Row& row, uint32_t slot, A64Case* out) {
  for (int i = 0; i < 200; ++i) {
    uint32_t word = Word(row);
    walk::Insn insn;
    if (!Lift(word, &insn)) continue;
    if (insn.target != walk::Insn::kNoTarget) {
      // Somewhere below the cases.
      const auto place = static_cast<int64_t>(A64_SLOTS + 16 * slot), to = static_cast<int64_t>(A64_SLOTS - 0x2000 + Random() % 0x600 * 4);
      const auto words = static_cast<uint32_t>((to - place) / 4);
      const Form form = a64::FormOf(word);
      if (form == Form::kBranchImmediate) word = (word & 0xfc000000) | (words & 0x03ffffff);
      else if (form == Form::kTestBranch) word = (word & 0xfff8001f) | (words & 0x3fff) << 5;
      else word = (word & 0xff00001f) | (words & 0x7ffff) << 5;
      if (!Lift(word, &insn)) continue;
    }
    if (!MayRun(word, insn)) continue;
    out->words = 1;
    out->lifted[0] = insn;
    out->input.word[0] = word;
    out->input.word[1] = 0xd4200000;
    Fill(out);
    Place(slot, out);
    return true;
  }
  return false;
}

void A64Source::MakePair(uint32_t slot, A64Case* out) {
  uint32_t first, second;
  const uint32_t n = 1 + Random() % 8, t = 10 + Random() % 8, status = 20 + Random() % 8, size = Random() % 4, order = Random() & 1;
  bool jumps = false;
  switch (Random() % 5) {
    case 0:  // ldxr, stxr
      first = size << 30 | 0x085f7c00 | order << 15 | n << 5 | t;
      second = size << 30 | 0x08007c00 | order << 15 | status << 16 | n << 5 | t;
      break;
    case 1:  // ldxp, stxp
      first = (size | 2) << 30 | 0x087f0000 | (t + 1) << 10 | n << 5 | t;
      second = (size | 2) << 30 | 0x08200000 | status << 16 | (t + 1) << 10 | n << 5 | t;
      break;
    case 2:  // ldxr, clrex
      first = size << 30 | 0x085f7c00 | n << 5 | t;
      second = 0xd503305f;
      break;
    case 3: {  // pacia or pacib, and the branch that checks and goes; paciasp, retaa
      const uint32_t key = Random() & 1, call = Random() & 1, modifier = Random() % 8;
      jumps = true;
      first = 0xdac10000 | key << 10 | modifier << 5 | t;
      second = 0xd71f0800 | call << 21 | key << 10 | t << 5 | modifier;
      if (Random() % 3 == 0) {
        first = 0xd503233f | key << 6;
        second = 0xd65f0bff | key << 10;
      }
      break;
    }
    default: {  // pacia and its kin, autia and its kin
      const uint32_t key = Random() % 4, modifier = Random() % 32;
      first = 0xdac10000 | key << 10 | (modifier == t ? 0 : modifier) << 5 | t;
      second = 0xdac11000 | (first & 0xfff);
      break;
    }
  }
  out->words = 2;
  Lift(first, &out->lifted[0]);
  Lift(second, &out->lifted[1]);
  out->input.word[0] = first;
  out->input.word[1] = second;
  Fill(out);
  Place(slot, out);
  if (out->lifted[0].uop.op == BRINK_A64_PAC) {
    // A pointer of user code: the walker takes checks for passed.
    SetGeneral(out, out->lifted[0].uop.dst, jumps ? A64_CODE + Random() % 0x4000 * 4 : Random() & 0xff007fffffffffffull);
  }
}

}  // namespace brink::walk_test
