// Machine code to micro-ops.
//
// Pure: takes bytes, gives micro-ops. Nothing here knows files, processes or maps; the code cache (code_cache.h) places
// what comes out. x86-64 is decoded by Zydis, A64 by a table of our own (src/a64). The micro-ops of the two are different
// sets, each with a core that executes it (bpf/walk, bpf/walk/a64).
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brink/abi/walk.h"

namespace brink::walk {

// The fields of a brink_uop and what it keeps elsewhere (abi/walk.h).
struct MicroOp {
  uint8_t op = 0;
  uint8_t flags = 0;
  uint8_t dst = 0;
  uint8_t src = 0;
  uint8_t src2 = 0;
  uint8_t base = 0;
  uint8_t index = 0;
  uint8_t scale = 0;
  int32_t disp = 0;
  int32_t imm = 0;  // direct branches: target, counted from the start of the instruction
  uint8_t sh = 0;
  uint8_t msh = 0;
  uint8_t len = 0;
  uint8_t aux = 0;
};

// One lifted instruction.
struct Insn {
  static constexpr int64_t kNoTarget = INT64_MIN;

  MicroOp uop;
  uint16_t offset = 0;           // in its page
  bool falls_through = false;    // execution may go on behind it
  int64_t target = kNoTarget;    // of a direct branch, from the start of the page; may lie outside of the page
  int64_t end() const { return int64_t{offset} + uop.len; }
};

// As it stands in the code cache, its links 0.
struct PackedInsn {
  brink_uop uop{};
  int32_t other = 0;  // brink_uop_more.other, which it then needs
};
PackedInsn Pack(const Insn& insn);

// What the lifter must know about the machine whose code it reads: on a CPU without them, tzcnt and lzcnt are bsf and
// bsr.
struct LiftOptions {
  enum class Machine : uint8_t { kX86_64, kA64 } machine = Machine::kX86_64;
  bool bmi1 = true;
  bool lzcnt = true;
  // A64: bits of a pointer below the code that signs it, which goes up to bit 54. 52 with a kernel for so large addresses,
  // although it gives some of 48 unless asked; 55: nothing is signed.
  uint8_t address_bits = 48;
  // A64: bytes that `dc zva` zeroes, a power of two; 0: not known, or user code may not do it.
  uint16_t zeroes = 0;
  // The machine that brink runs on.
  static LiftOptions Host();
  static LiftOptions A64() { return {.machine = Machine::kA64}; }
  // What is left of this value when a code is stripped off it (xpaclri) tells address_bits.
  static constexpr uint64_t kAllAddressBits = (uint64_t{1} << 55) - 1;
  static uint8_t AddressBitsByStripped(uint64_t stripped) { return static_cast<uint8_t>(std::countr_one(stripped & kAllAddressBits)); }
  // `zeroes` by the machine's register DCZID_EL0.
  static uint16_t ZeroedByDczid(uint64_t dczid) { return dczid & 0x10 ? 0 : static_cast<uint16_t>(4u << (dczid & 0xf)); }
};

class Lifter {
 public:
  explicit Lifter(const LiftOptions& options = LiftOptions::Host());
  ~Lifter();
  Lifter(const Lifter&) = delete;
  Lifter& operator=(const Lifter&) = delete;

  // The instruction at the start of `bytes`. Nothing when the bytes end inside it, or for a breakpoint (int3,
  // brk), which is never lifted. What is no instruction, or one outside the set, is a micro-op that ends the walk.
  // Insn.offset is 0 and Insn.target counts from the instruction. Thread-compatible.
  std::optional<Insn> One(std::span<const uint8_t> bytes) const;

  // All instructions reachable from `offset` without leaving the page and not in `done` (one entry an offset of the
  // page, true = lifted already; updated). `code` is the page, with or without the head of the following page; without
  // it an instruction that crosses the end is left out. Calls are followed on both sides.
  // At most `most` of them, the nearest first; where more were to come goes into `left`, if given.
  std::vector<Insn> Page(std::span<const uint8_t> code, uint16_t offset, std::vector<bool>& done, size_t most = SIZE_MAX,
                         std::vector<uint16_t>* left = nullptr) const;

  // How far a sweep of a page has come.
  struct SweepState {
    int64_t at = 0;
    bool in_step = false;  // has met an instruction that is known to be one
  };
  // The rest of the page: what looks like code between the instructions that are `done` (updated). A guess, which costs
  // room and nothing else: what is no code is never entered. Goes on from `state` to the first place at or behind `to`.
  std::vector<Insn> Sweep(std::span<const uint8_t> code, std::vector<bool>& done, SweepState* state, int64_t to) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brink::walk
