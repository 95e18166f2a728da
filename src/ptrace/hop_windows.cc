#include "ptrace/hop_windows.h"

#include <sys/ptrace.h>

namespace brink::ptrace {

using decode::Flow;

void HopWindows::Advance(Thread& thread) {
  thread.path = {};
  thread.path.state.sp = thread.regs.sp();
  thread.ticks_without_hit = 0;
  thread.stands = 0;
  Send(thread, thread.regs.ip);
}

void HopWindows::StepOff(Thread& thread) {
  if (thread.breakpoint_set) ClearBreakpoint(thread.tid);
  thread.breakpoint_set = false;
  thread.phase = Thread::Phase::kStep;
  Resume(thread, PTRACE_SINGLESTEP);
}

void HopWindows::Await(Thread& thread, uint64_t ip) {
  bool ready = thread.breakpoint_set ? MoveBreakpoint(thread.tid, ip) : SetBreakpoint(thread.tid, ip);
  thread.breakpoint_set = true;
  if (ready) Resume(thread, PTRACE_CONT);
  else Finish(thread, BRINK_STOP_FAULT, 0);
}

void HopWindows::Send(Thread& thread, uint64_t ip) {
  const FollowConfig& config = recorder_->config();
  ProcessMemory memory(thread.tid);
  while (true) {
    if (thread.window.stops >= config.max_stops) return Finish(thread, BRINK_STOP_BUDGET, ip);
    thread.path = ScanPath(ip, thread.path.state, config.depth - thread.window.branches.size(), memory);
    ip = thread.path.stop_ip;
    if (thread.path.end == Path::End::kLive || thread.path.end == Path::End::kTerminal) break;
    bool unreadable = thread.path.end == Path::End::kUnreadable;
    Confirm(thread);
    if (unreadable) return Finish(thread, BRINK_STOP_FAULT, ip);
    if (recorder_->Full(thread.window)) return Finish(thread, BRINK_STOP_FULL, ip);
    ++thread.window.stops;  // a kind filter left some out: on with the next stretch, but not for ever
  }
  // A loop of one branch: where resuming meets the breakpoint again, it must be left first.
  if (!decode::kResumesOverBreakpoint && ip == thread.stands) StepOff(thread);
  else Await(thread, ip);
}

void HopWindows::Confirm(Thread& thread) {
  for (const PathBranch& branch : thread.path.branches) {
    if (recorder_->Full(thread.window)) break;
    recorder_->Add(&thread.window, branch.from, branch.to, branch.kind);
  }
  recorder_->Count(kStatic, thread.path.branches.size());
  thread.path.branches.clear();
}

void HopWindows::Discard(Thread& thread) {
  recorder_->Count(kDiscarded, thread.path.branches.size());
  thread.path.branches.clear();
}

bool HopWindows::TakeBranch(Thread& thread) {
  const decode::Insn& insn = thread.path.insn;
  uint64_t ip = thread.regs.ip;
  PathState& state = thread.path.state;
  state.sp = thread.regs.sp();
  ProcessMemory memory(thread.tid);
  auto outcome = decode::Evaluate(insn, thread.regs, memory);
  if (!outcome) {
    Finish(thread, BRINK_STOP_FAULT, ip);
    return false;
  }
  if (insn.flow == Flow::kIndCall) state.Push(ip + insn.length);
  if (insn.flow == Flow::kRet) {
    state.Pop();
    state.sp = thread.regs.sp() + (decode::kReturnsOnStack ? 8 : 0) + static_cast<uint64_t>(insn.stack.delta);
  }
  if (outcome->branched) recorder_->Add(&thread.window, ip, outcome->next, decode::KindOf(insn.flow));
  if (recorder_->Full(thread.window)) {
    Finish(thread, BRINK_STOP_FULL, outcome->next);
    return false;
  }
  thread.stands = ip;
  thread.regs.ip = outcome->next;
  return true;
}

void HopWindows::OnTrap(Thread& thread, TrapKind kind) {
  // An unexplained hit lacks the resume flag: the breakpoint strikes again at once, this time with its reason.
  const bool stepped = kind == TrapKind::kStep && thread.phase == Thread::Phase::kStep;
  if (!Open(thread) || (kind != TrapKind::kBreakpoint && !stepped)) {
    Resume(thread, PTRACE_CONT);
    return;
  }
  recorder_->Count(kStops);
  ++thread.window.stops;
  thread.ticks_without_hit = 0;
  if (!ReadRegs(thread.tid, &thread.regs)) {
    Resume(thread, PTRACE_CONT);
    return;
  }
  thread.phase = Thread::Phase::kFree;
  if (stepped && thread.regs.ip != thread.path.stop_ip) return Await(thread, thread.path.stop_ip);
  bool astray = thread.regs.ip != thread.path.stop_ip ||
                (thread.path.state.sp && *thread.path.state.sp != thread.regs.sp());
  if (astray) {
    recorder_->Count(kStrayed);
    Discard(thread);
    return Finish(thread, BRINK_STOP_UNKNOWN_TARGET, 0);
  }
  Confirm(thread);
  if (recorder_->Full(thread.window)) return Finish(thread, BRINK_STOP_FULL, thread.regs.ip);
  if (thread.path.end == Path::End::kTerminal) {
    bool syscall = thread.path.insn.flow == Flow::kSyscall;
    return Finish(thread, syscall ? BRINK_STOP_SYSCALL : BRINK_STOP_UNSUPPORTED, thread.regs.ip);
  }
  if (TakeBranch(thread)) Send(thread, thread.regs.ip);
}

void HopWindows::OnBusyTick(Thread& thread) {
  if (++thread.ticks_without_hit < 2) {
    Resume(thread, thread.phase == Thread::Phase::kStep ? PTRACE_SINGLESTEP : PTRACE_CONT);
    return;
  }
  recorder_->Count(kStrayed);
  Discard(thread);
  Finish(thread, BRINK_STOP_UNKNOWN_TARGET, 0);
}

void HopWindows::Undo(Thread& thread) {
  Discard(thread);
  thread.phase = Thread::Phase::kFree;
  if (thread.breakpoint_set) ClearBreakpoint(thread.tid);
  thread.breakpoint_set = false;
}

}  // namespace brink::ptrace
