// A64 threads: registers and breakpoints through the kernel's register sets.
#include <algorithm>
#include <cstddef>

#include <elf.h>
#include <linux/types.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "ptrace/tracee.h"

#ifdef __aarch64__

namespace brink::ptrace {
namespace {

// The sets' numbers and layouts, which the C library of Debian 12 names in part.
constexpr unsigned kGeneral = 1, kTls = 0x401, kBreakpoints = 0x402, kSignatureMasks = 0x406;
constexpr uint64_t kConditionFlags = 0xf0000000;
// A breakpoint: enabled, in user mode, four bytes, execution.
constexpr uint32_t kArmed = 1u | 2u << 1 | 0xfu << 5;

struct BreakpointSet {
  uint32_t info = 0, pad = 0;
  struct {
    uint64_t address;
    uint32_t control, pad;
  } slots[kMostBreakpoints] = {};
};

bool GetSet(pid_t tid, unsigned which, void* out, size_t size, size_t* got = nullptr) {
  struct iovec buffer = {out, size};
  if (!Ask(PTRACE_GETREGSET, tid, which, &buffer)) return false;
  if (got) *got = buffer.iov_len;
  return true;
}

bool PutSet(pid_t tid, unsigned which, void* data, size_t size) {
  struct iovec buffer = {data, size};
  return Ask(PTRACE_SETREGSET, tid, which, &buffer);
}

// Which bits of a code pointer a signature occupies: the same for every process of a kernel. None where the CPU does not sign.
// A thread that cannot be asked (it may be gone) answers for no other.
uint64_t SignatureBits(pid_t tid) {
  static uint64_t bits = 0;
  if (bits != 0) return bits;
  struct {
    uint64_t data, code;
  } masks = {};
  if (GetSet(tid, kSignatureMasks, &masks, sizeof masks)) bits = masks.code;
  return bits;
}

// Writes the first `slots` breakpoints, armed at `addresses` as far as these go. A slot that is written is the thread's from
// then on, armed or not.
bool Arm(pid_t tid, std::span<const uint64_t> addresses, size_t slots) {
  BreakpointSet set;
  for (size_t i = 0; i < addresses.size(); ++i) set.slots[i] = {addresses[i], kArmed, 0};
  return PutSet(tid, kBreakpoints, &set, offsetof(BreakpointSet, slots) + slots * sizeof set.slots[0]);
}

}  // namespace

void FillView(Regs* regs) {
  const struct user_regs_struct& r = regs->raw;
  std::copy(std::begin(r.regs), std::end(r.regs), std::begin(regs->gpr));
  regs->stack = r.sp;
  regs->ip = r.pc;
  regs->flags = r.pstate & kConditionFlags;
}

bool ReadRegs(pid_t tid, Regs* out) {
  size_t got = 0;
  if (!GetSet(tid, kGeneral, &out->raw, sizeof out->raw, &got)) return false;
  out->is_64bit = got == sizeof out->raw;
  FillView(out);
  if (!GetSet(tid, kTls, &out->tpidr, sizeof out->tpidr)) out->tpidr = 0;
  out->signature = SignatureBits(tid);
  return true;
}

bool WriteRegs(pid_t tid, const struct user_regs_struct& raw) {
  struct user_regs_struct copy = raw;
  return PutSet(tid, kGeneral, &copy, sizeof copy);
}

bool SetBreakpoints(pid_t tid, std::span<const uint64_t> addresses) {
  BreakpointSet has;
  if (addresses.size() > kMostBreakpoints || !GetSet(tid, kBreakpoints, &has, sizeof has)) return false;
  if (addresses.size() > (has.info & 0xff)) return false;
  size_t slots = addresses.size();
  for (size_t i = slots; i < kMostBreakpoints; ++i) {
    if (has.slots[i].control & 1) slots = i + 1;
  }
  return slots == 0 || Arm(tid, addresses, slots);
}

bool SetBreakpoint(pid_t tid, uint64_t address) { return SetBreakpoints(tid, {&address, 1}); }
bool MoveBreakpoint(pid_t tid, uint64_t address) { return Arm(tid, {&address, 1}, 1); }
bool ClearBreakpoint(pid_t tid) { return SetBreakpoints(tid, {}); }

void HidePushedTrapFlag(pid_t, uint64_t) {}  // no instruction stores the step bit

Status CheckArchitecture() { return OkStatus(); }

}  // namespace brink::ptrace

#endif  // __aarch64__
