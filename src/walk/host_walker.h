// The walker in user space: the same core as in the kernel, on registers and memory that the caller provides.
//
// Used by the hop and step sources (live ptrace registers), by tests, fuzzing and `brink doctor`. Code is read through
// the same callback as data, lifted on demand and kept for the next walk; changed code is noticed and lifted again.
// Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/branch.h"
#include "brink/abi/walk_state.h"
#include "walk/lifter.h"

namespace brink::walk {

// Copies `size` bytes at `address` of the walked process; false when any of them cannot be read.
using ReadMemory = std::function<bool(uint64_t address, void* to, size_t size)>;

struct VectorState {
  uint8_t zmm[32][64] = {};
  uint64_t known[32] = {};  // a bit a byte
  uint64_t k[8] = {};
};

struct Registers {
  uint64_t gpr[16] = {};  // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 .. r15
  uint64_t ip = 0;
  uint64_t flags = 0;     // rflags
  std::optional<uint64_t> fs_base;
  std::optional<uint64_t> gs_base;
  std::optional<VectorState> vector;  // absent: unknown
};

// The same for A64 code.
struct A64Registers {
  uint64_t x[31] = {};
  uint64_t sp = 0;
  uint64_t ip = 0;
  uint64_t pstate = 0;
  std::optional<uint64_t> tpidr;
  std::optional<std::array<std::array<uint8_t, 16>, 32>> vector;  // absent: unknown
};

struct WalkOptions {
  uint32_t depth = 32;        // 1 .. BRINK_MAX_WALK_BRANCHES
  uint32_t max_steps = 8192;  // 1 .. BRINK_WALK_MAX_STEPS
  uint32_t kind_mask = BRINK_WALK_ALL_KINDS;
  std::vector<brink_walk_range> ranges;  // at most BRINK_WALK_RANGES
  // What the mapping of an address permits (BRINK_ACCESS_*). Empty: whatever can be read may be stored to and executed.
  std::function<uint32_t(uint64_t address)> access;
};

struct WalkResult {
  std::vector<BranchEntry> branches;  // oldest first
  brink_stop stop = BRINK_STOP_NONE;
  uint64_t end_ip = 0;         // the first instruction that was not followed
  uint64_t fault_address = 0;  // with FAULT, DEVICE_MEMORY, STORE_FULL
  uint32_t steps = 0;
  uint32_t lifted = 0;         // instructions lifted for this walk
};

class HostWalker {
 public:
  explicit HostWalker(const LiftOptions& options = LiftOptions::Host());
  ~HostWalker();
  HostWalker(const HostWalker&) = delete;
  HostWalker& operator=(const HostWalker&) = delete;

  WalkResult Walk(const Registers& registers, const ReadMemory& read, const WalkOptions& options = {});
  // With LiftOptions of that machine.
  WalkResult Walk(const A64Registers& registers, const ReadMemory& read, const WalkOptions& options = {});

  // The state as the last walk left it: registers with their unknown bits, memory lines.
  const brink_walk& state() const;
  // Register `i` after the last walk, or nothing where a bit of it is unknown.
  std::optional<uint64_t> Gpr(int i) const;
  // Forgets all lifted code (another process).
  void ForgetCode();

 private:
  struct Impl;
  WalkResult Run(const ReadMemory& read, const WalkOptions& options);
  std::unique_ptr<Impl> impl_;
};

// --- the bare core, for tests that compare it with the BPF build -------------------------------------------------------

// Where the core finds micro-ops, pages and memory. All pointers stay valid during the call.
struct CoreEnvironment {
  std::span<const brink_uop> uops;
  std::span<const brink_walk_page> pages;
  std::function<bool(uint64_t address, void* to, size_t size)> read;
  // Page slot, 0 = none, by the hash of the code line (bpf/walk/hash.h) or by its address, as the owner likes.
  std::function<uint32_t(uint64_t hash, uint64_t address)> translate;
  std::function<uint64_t()> clock;                                   // ns; may be empty
  std::function<uint32_t(uint64_t address)> access;                  // needed where state->mm is not 0
};

// Prepares `state` for a new walk: everything but registers, flags, asid, ranges and deadline.
void CoreBegin(brink_walk* state, const brink_walk_config& config);
// Makes lazily kept flags explicit: state->flags and state->flags_known.
void CoreSettleFlags(brink_walk* state);
// Walks until state->stop is set.
void CoreRun(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out);

// The same for A64: general registers by BRINK_A64_REG (bpf/walk/a64/ops.h), flags as in PSTATE.
void CoreBeginA64(brink_walk* state, const brink_walk_config& config);
void CoreSettleFlagsA64(brink_walk* state);
void CoreRunA64(const CoreEnvironment& environment, brink_walk* state, brink_walk_out* out);

}  // namespace brink::walk
