// What one machine instruction does to the control flow, and where it goes with given registers.
//
// Pure: bytes and registers in, values out. Used by the exact sources (hop, step) and by the tests that compare
// others with the CPU. x86-64 lives in x86_flow.cc; another architecture adds its own decoder behind Decode and
// Evaluate, with its own CpuRegs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/branch.h"

namespace brink::decode {

// Longest instruction, in bytes: what a caller should have at hand for Decode.
inline constexpr size_t kMaxInsnBytes = 15;

enum class Flow : uint8_t {
  kNext,     // falls through (rep string instructions too: their iterations are no branches)
  kCond,
  kJump,
  kIndJump,
  kCall,
  kIndCall,
  kRet,
  kSyscall,  // enters the kernel on purpose: syscall, sysenter, int 0x80
  kOther,    // leaves the straight line in a way that is not followed: traps, iret, far transfers, xbegin
};

// brink's name of a flow that is recorded as a branch; kUnknown for kNext and kOther.
Kind KindOf(Flow flow);

// General registers in hardware encoding order (rax rcx rdx rbx rsp rbp rsi rdi r8..r15).
struct CpuRegs {
  uint64_t gpr[16] = {};
  uint64_t ip = 0;
  uint64_t flags = 0;
  uint64_t fs_base = 0;
  uint64_t gs_base = 0;

  uint64_t sp() const { return gpr[4]; }
  uint64_t fp() const { return gpr[5]; }
};

inline constexpr uint64_t kTrapFlag = 0x100;

// Reads the memory of the thread that is looked at.
class Memory {
 public:
  virtual ~Memory() = default;
  // How many of the `size` bytes at `address` could be read, from the first on.
  virtual size_t Read(uint64_t address, void* out, size_t size) = 0;
};

// Where an indirect transfer takes its target from.
struct Location {
  enum Where : uint8_t { kNone, kRegister, kMemory } where = kNone;
  uint8_t base = kNoRegister;   // register number; of the address for kMemory
  uint8_t index = kNoRegister;
  uint8_t scale = 0;
  enum Segment : uint8_t { kFlat, kFs, kGs } segment = kFlat;
  bool ip_relative = false;
  bool address32 = false;       // 67 prefix: the address wraps at 32 bits
  int64_t displacement = 0;

  static constexpr uint8_t kNoRegister = 0xff;
};

// What an instruction does to the stack pointer and, through it, to the stack.
struct StackEffect {
  bool known = true;            // false: sp is something that the bytes do not tell
  int32_t delta = 0;            // sp afterwards - sp before; of a ret: beyond the return address (ret N)
  uint16_t store_size = 0;      // > 0: stores this many bytes at sp (before) + store_offset
  int64_t store_offset = 0;
};

struct Insn {
  uint8_t length = 0;
  Flow flow = Flow::kNext;
  uint8_t condition = 0;        // kCond: 0..15 as in Jcc, or one of kRcxZero...
  bool count32 = false;         // kRcxZero, kLoop*: counts in ecx
  bool repeats = false;         // rep prefix that counts: may trap with ip unchanged
  bool pushes_flags = false;
  bool pops_flags = false;
  uint64_t target = 0;          // direct transfers
  Location source;              // indirect transfers
  StackEffect stack;

  static constexpr uint8_t kRcxZero = 16, kLoop = 17, kLoopEqual = 18, kLoopNotEqual = 19;
};

// Decodes the instruction at `ip`; nothing where `bytes` hold no whole valid instruction.
std::optional<Insn> Decode(std::span<const uint8_t> bytes, uint64_t ip);

// Where `insn`, about to be executed with `regs`, goes. `branched` is false where it falls through; a branch taken to
// the next instruction is a branch. Nothing: the target could not be read, or the flow is kSyscall or kOther.
struct Outcome {
  bool branched = false;
  uint64_t next = 0;
};
std::optional<Outcome> Evaluate(const Insn& insn, const CpuRegs& regs, Memory& memory);

}  // namespace brink::decode
