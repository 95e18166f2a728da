// A64 words to micro-ops (bpf/walk/a64/ops.h). Internal to the lifter.
#pragma once

#include "a64/encoding.h"
#include "walk/a64/vops.h"
#include "walk/lifter.h"

namespace brink::walk {

// A word and the micro-op that is made of it.
struct A64Word {
  uint32_t word;
  a64::Form form;
  Insn& insn;
  MicroOp& u;
  const LiftOptions& options;

  A64Word(uint32_t w, Insn* out, const LiftOptions& o) : word(w), form(a64::FormOf(w)), insn(*out), u(out->uop), options(o) {}

  uint32_t bits(int high, int low) const { return a64::Bits(word, high, low); }
  uint32_t bit(int n) const { return a64::Bit(word, n); }
  int32_t imm(int high, int low) const { return static_cast<int32_t>(a64::SignedBits(word, high, low)); }

  // Numbers in the walker's register file; 31 is the zero register, or with Sp the stack pointer.
  static uint8_t Src(uint32_t n) { return static_cast<uint8_t>(n == 31 ? uint32_t{BRINK_WREG_ZERO} : BRINK_A64_REG(n)); }
  static uint8_t Dst(uint32_t n) { return static_cast<uint8_t>(n == 31 ? BRINK_A64_SINK : BRINK_A64_REG(n)); }
  static uint8_t Sp(uint32_t n) { return static_cast<uint8_t>(BRINK_A64_REG(n)); }
  uint8_t rd() const { return Dst(a64::Rd(word)); }
  uint8_t rn() const { return Src(a64::Rn(word)); }
  uint8_t rm() const { return Src(a64::Rm(word)); }
  // Operand size from bit 31.
  void SizeOf64() { u.sh = bit(31) ? 0 : 32; }
  void Size(unsigned bits) { u.sh = static_cast<uint8_t>(64 - bits); }

  void Op(uint8_t op) { u.op = op; }
  // The constant of CONST, or a wide immediate.
  void Constant(uint64_t value) {
    u.disp = static_cast<int32_t>(value);
    u.imm = static_cast<int32_t>(value >> 32);
  }
  // Pointer authentication of a register.
  bool Pac(uint8_t reg, uint8_t what) {
    u.op = BRINK_A64_PAC;
    u.dst = reg;
    u.aux = what;
    u.index = options.address_bits;
    return true;
  }
  // Results become unknown.
  bool Clobber(uint8_t what) {
    u.op = BRINK_A64_CLOBBER;
    u.aux = what;
    return true;
  }
  bool ClobberVector(uint32_t first, uint32_t count = 1) {
    u.dst = static_cast<uint8_t>(first);
    u.src = static_cast<uint8_t>(count - 1);
    return Clobber(BRINK_A64_LOSE_VECTOR);
  }
  bool ClobberReg(uint32_t n, bool wide) {
    u.dst = Dst(n);
    u.sh = wide ? 0 : 32;
    return Clobber(BRINK_A64_LOSE_REG);
  }
  bool Stop(uint8_t why) {
    u.op = BRINK_A64_STOP;
    u.aux = why;
    return true;
  }
};

// Each lifts the forms of one group. False: an unallocated word, or one whose effects are not followed.
bool LiftA64Immediate(A64Word& w);
bool LiftA64Register(A64Word& w);
bool LiftA64Control(A64Word& w);
bool LiftA64Memory(A64Word& w);
bool LiftA64Vector(A64Word& w);
bool LiftA64Float(A64Word& w);

// The instruction, a micro-op that ends the walk for what is not followed, nothing for a breakpoint (brk).
std::optional<Insn> LiftA64(uint32_t word, const LiftOptions& options);

}  // namespace brink::walk
