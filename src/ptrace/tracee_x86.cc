#include <cstddef>

#include <sys/ptrace.h>
#include <sys/uio.h>

#include "ptrace/tracee.h"

#ifdef __x86_64__

namespace brink::ptrace {
namespace {

constexpr uint64_t kUserCode64 = 0x33;
constexpr uint64_t kEnableFirst = 1;  // DR7: local enable of DR0, length and type 0 = execution

bool PokeDebug(pid_t tid, int index, uint64_t value) {
  auto offset = offsetof(struct user, u_debugreg) + static_cast<size_t>(index) * sizeof(uint64_t);
  return Ask(PTRACE_POKEUSER, tid, offset, reinterpret_cast<void*>(value));
}

}  // namespace

void FillView(Regs* regs) {
  const struct user_regs_struct& r = regs->raw;
  const uint64_t in_order[16] = {r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi,
                                 r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
  std::copy(std::begin(in_order), std::end(in_order), std::begin(regs->gpr));
  regs->ip = r.rip;
  regs->flags = r.eflags;
  regs->fs_base = r.fs_base;
  regs->gs_base = r.gs_base;
  regs->is_64bit = r.cs == kUserCode64;
}

bool ReadRegs(pid_t tid, Regs* out) {
  if (!Ask(PTRACE_GETREGS, tid, 0, &out->raw)) return false;
  FillView(out);
  return true;
}

bool WriteRegs(pid_t tid, const struct user_regs_struct& raw) {
  return Ask(PTRACE_SETREGS, tid, 0, const_cast<struct user_regs_struct*>(&raw));
}

bool SetBreakpoints(pid_t tid, std::span<const uint64_t> addresses) {
  uint64_t enable = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (i >= kMostBreakpoints || !PokeDebug(tid, static_cast<int>(i), addresses[i])) return false;
    enable |= kEnableFirst << 2 * i;
  }
  return PokeDebug(tid, 7, enable);
}

bool SetBreakpoint(pid_t tid, uint64_t address) { return PokeDebug(tid, 0, address) && PokeDebug(tid, 7, kEnableFirst); }
bool MoveBreakpoint(pid_t tid, uint64_t address) { return PokeDebug(tid, 0, address); }
bool ClearBreakpoint(pid_t tid) { return PokeDebug(tid, 7, 0); }

void HidePushedTrapFlag(pid_t tid, uint64_t sp) {
  // The trap flag is bit 0 of the second byte, whatever the width of the push.
  ProcessMemory memory(tid);
  uint8_t byte = 0;
  if (memory.Read(sp + 1, &byte, 1) != 1) return;
  byte &= 0xfe;
  memory.Write(sp + 1, &byte, 1);
}

Status CheckArchitecture() { return OkStatus(); }

}  // namespace brink::ptrace

#endif  // __x86_64__
