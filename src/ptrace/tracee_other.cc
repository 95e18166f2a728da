// Architectures whose registers and breakpoints are not written yet: the sources refuse at start, nothing is followed.
#include "ptrace/tracee.h"

#ifndef __x86_64__

namespace brink::ptrace {

void FillView(Regs*) {}
bool ReadRegs(pid_t, Regs*) { return false; }
bool WriteRegs(pid_t, const struct user_regs_struct&) { return false; }
bool SetBreakpoint(pid_t, uint64_t) { return false; }
bool MoveBreakpoint(pid_t, uint64_t) { return false; }
bool ClearBreakpoint(pid_t) { return false; }
void HidePushedTrapFlag(pid_t, uint64_t) {}

Status CheckArchitecture() {
  return Unimplemented("the sources hop and step follow x86-64 threads only; use --source walk or lbr");
}

}  // namespace brink::ptrace

#endif
