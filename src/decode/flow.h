// What one machine instruction does to the control flow, and where it goes with given registers.
//
// Pure: bytes and registers in, values out. Used by the exact sources (hop, step), by the policies that judge recorded
// branches, and by the tests that compare others with the CPU. Both machines' decoders are in every build, because a
// recording is judged anywhere: x86-64 in x86_flow.cc, A64 in a64_flow.cc. CpuRegs is the running machine's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/branch.h"

namespace brink::decode {

// Longest instruction of any machine, in bytes: what a caller should have at hand for Decode.
inline constexpr size_t kMaxInsnBytes = 15;

enum class Machine : uint8_t { kX86, kA64 };
#ifdef __aarch64__
inline constexpr Machine kHostMachine = Machine::kA64;
#else
inline constexpr Machine kHostMachine = Machine::kX86;
#endif

enum class Flow : uint8_t {
  kNext,     // falls through (rep string instructions too: their iterations are no branches)
  kCond,
  kJump,
  kIndJump,
  kCall,
  kIndCall,
  kRet,
  kSyscall,  // enters the kernel on purpose: syscall, sysenter, int 0x80; svc
  kOther,    // leaves the straight line in a way that is not followed: traps, iret, far transfers, xbegin; brk, eret
};

// brink's name of a flow that is recorded as a branch; kUnknown for kNext and kOther.
Kind KindOf(Flow flow);

// General registers in hardware encoding order (rax rcx rdx rbx rsp rbp rsi rdi r8..r15).
struct X86Regs {
  uint64_t gpr[16] = {};
  uint64_t ip = 0;
  uint64_t flags = 0;
  uint64_t fs_base = 0;
  uint64_t gs_base = 0;

  uint64_t sp() const { return gpr[4]; }
  uint64_t fp() const { return gpr[5]; }
  uint64_t code(uint64_t address) const { return address; }
};

struct A64Regs {
  uint64_t gpr[31] = {};
  uint64_t stack = 0;
  uint64_t ip = 0;
  uint64_t flags = 0;           // N, Z, C, V in bits 31 to 28, nothing else
  uint64_t tpidr = 0;
  uint64_t signature = 0;       // the bits of a code pointer that a signature may occupy

  uint64_t sp() const { return stack; }
  uint64_t fp() const { return gpr[29]; }
  // A code pointer without its signature, as authentication leaves it. User addresses: the upper bits are 0.
  uint64_t code(uint64_t address) const { return address & ~signature; }
};

#ifdef __aarch64__
using CpuRegs = A64Regs;
// The kernel keeps its step bit to itself: no program can step itself.
inline constexpr uint64_t kTrapFlag = 0;
// A call leaves its return address in a register, so the stack does not tell where a return goes.
inline constexpr bool kReturnsOnStack = false;
// Resuming at an armed breakpoint meets it again.
inline constexpr bool kResumesOverBreakpoint = false;
#else
using CpuRegs = X86Regs;
inline constexpr uint64_t kTrapFlag = 0x100;
inline constexpr bool kReturnsOnStack = true;
inline constexpr bool kResumesOverBreakpoint = true;
#endif

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
  bool authenticated = false;   // the register's signature is checked and taken off
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
  uint8_t condition = 0;        // kCond: 0..15 as in Jcc or B.cond, or one of kRcxZero..., kRegZero...
  bool count32 = false;         // kRcxZero, kLoop*: counts in ecx; kReg*: looks at 32 bits
  bool repeats = false;         // rep prefix that counts: may trap with ip unchanged
  bool pushes_flags = false;
  bool pops_flags = false;
  bool exclusive = false;       // opens (load) or closes (store) an exclusive access: a stop between the two undoes it
  bool stores = false;          // of `exclusive`: the store
  uint8_t bit = 0;              // kBitZero, kBitSet: which
  uint64_t target = 0;          // direct transfers
  Location source;              // indirect transfers
  StackEffect stack;

  static constexpr uint8_t kRcxZero = 16, kLoop = 17, kLoopEqual = 18, kLoopNotEqual = 19;
  // Of source.base, on A64.
  static constexpr uint8_t kRegZero = 20, kRegNotZero = 21, kBitZero = 22, kBitSet = 23;
};

// Decodes the instruction at `ip`; nothing where `bytes` hold no whole valid instruction.
std::optional<Insn> Decode(Machine machine, std::span<const uint8_t> bytes, uint64_t ip);
inline std::optional<Insn> Decode(std::span<const uint8_t> bytes, uint64_t ip) { return Decode(kHostMachine, bytes, ip); }

// Where `insn`, about to be executed with `regs`, goes. `branched` is false where it falls through; a branch taken to
// the next instruction is a branch. Nothing: the target could not be read, or the flow is kSyscall or kOther.
struct Outcome {
  bool branched = false;
  uint64_t next = 0;
};
std::optional<Outcome> Evaluate(const Insn& insn, const X86Regs& regs, Memory& memory);
std::optional<Outcome> Evaluate(const Insn& insn, const A64Regs& regs, Memory& memory);

// The two decoders behind Decode.
std::optional<Insn> DecodeX86(std::span<const uint8_t> bytes, uint64_t ip);
std::optional<Insn> DecodeA64(std::span<const uint8_t> bytes, uint64_t ip);

}  // namespace brink::decode
