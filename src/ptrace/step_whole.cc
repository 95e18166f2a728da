#include "ptrace/step_whole.h"

#include <algorithm>

#include <sys/ptrace.h>
#include <sys/syscall.h>

namespace brink::ptrace {
namespace {

using decode::Flow;
using Phase = Thread::Phase;

// Calls that leave with a temporary mask, which the kernel takes back only while it delivers the signal that ended
// them: the mask must not be touched at their exit.
bool LeavesTemporaryMask(uint64_t syscall) {
  constexpr uint64_t kCalls[] = {SYS_rt_sigsuspend, SYS_ppoll,          SYS_pselect6,
                                 SYS_epoll_pwait,   SYS_io_pgetevents, 441 /* epoll_pwait2 */};
  return std::ranges::find(kCalls, syscall) != std::end(kCalls);
}

struct SyscallStop {
  bool exit = false;
  bool restarts = false;   // exit: the call will be made again unless a handler runs
  uint64_t number = 0;
};

// What the kernel keeps to itself: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
bool IsRestart(int64_t result) { return (result >= -514 && result <= -512) || result == -516; }

SyscallStop ReadSyscallStop(const Thread& thread) {
  struct __ptrace_syscall_info info = {};
  SyscallStop stop;
  ::ptrace(PTRACE_GET_SYSCALL_INFO, thread.tid, sizeof info, &info);
  stop.exit = info.op == PTRACE_SYSCALL_INFO_EXIT;
  if (stop.exit) stop.restarts = IsRestart(info.exit.rval);
#ifdef __x86_64__
  stop.number = thread.regs.raw.orig_rax;
#else
  stop.number = thread.regs.gpr[8];
#endif
  return stop;
}

// Whether a handler of the target will run for `signal`.
bool IsCaught(pid_t tid, int signal) {
  SignalStatus status;
  return ReadSignalStatus(tid, &status) && (status.caught >> (signal - 1) & 1);
}

}  // namespace

void StepWhole::Engage(Thread& thread) {
  constexpr ThreadState kWay[] = {ThreadState::kArmed, ThreadState::kSampling, ThreadState::kHopping};
  for (ThreadState next : kWay) {
    if (IsLegalTransition(thread.machine.state(), next) && !thread.machine.To(next)) recorder_->Count(kIllegalState);
  }
}

void StepWhole::ReadIgnored(Thread& thread) {
  SignalStatus status;
  if (ReadSignalStatus(thread.tid, &status)) thread.process->sigtrap_ignored = status.ignored & kSigtrapBit;
}

void StepWhole::BeginChunk(Thread& thread) {
  int cpu = LastCpu(thread.tid);
  recorder_->Begin(thread.tid, thread.regs, cpu < 0 ? 0 : static_cast<uint32_t>(cpu), &thread.window);
  if (cpu >= 0) JoinCpu(cpu);
}

void StepWhole::EndChunk(Thread& thread, brink_stop stop, uint64_t end_ip) {
  if (thread.window.branches.empty() && stop != BRINK_STOP_EXIT) thread.window.Clear();
  else recorder_->Emit(thread.tgid, thread.tid, stop, end_ip, &thread.window);
}

void StepWhole::OnStart(Thread& thread) {
  // A process met while it runs is caught by its first tick, in user mode.
  if (thread.tick.valid()) {
    if (thread.machine.Is(ThreadState::kIdle) && !thread.machine.To(ThreadState::kArmed)) recorder_->Count(kIllegalState);
    Resume(thread, PTRACE_CONT);
    return;
  }
  Engage(thread);
  ReadIgnored(thread);
  ReadRegs(thread.tid, &thread.regs);
  BeginChunk(thread);
  if (MayStep(thread, ~uint64_t{0})) Advance(thread);
  else RunOver(thread);
}

// The new program begins when execve returns: its exit is awaited like that of any other call.
void StepWhole::OnExec(Thread& thread) {
  thread.tick.Reset();
  Engage(thread);
  thread.phase = Phase::kRunOver;
  Resume(thread, PTRACE_SYSCALL);
}

void StepWhole::OnTick(Thread& thread) {
  recorder_->Count(kTicks);
  bool first = thread.tick.valid();
  thread.tick.Reset();
  if (first) OnStart(thread);
  else OnEvent(thread);
}

bool StepWhole::MayStep(Thread& thread, uint64_t syscall) {
  if (!thread.regs.is_64bit) {
    recorder_->Count(kCompat);
    return false;
  }
  if (thread.regs.flags & decode::kTrapFlag) {
    recorder_->Count(kOwnStepping);
    return false;
  }
  if (thread.process->sigtrap_ignored) {
    recorder_->Count(kSigtrapIgnored);
    return false;
  }
  if (!GetSignalMask(thread.tid, &thread.mask)) return false;
  if (!(thread.mask & kSigtrapBit)) return true;
  SignalStatus status;
  if (LeavesTemporaryMask(syscall) || !ReadSignalStatus(thread.tid, &status) || (status.pending & kSigtrapBit)) {
    recorder_->Count(kSigtrapBlocked);
    return false;
  }
  thread.mask_lifted = SetSignalMask(thread.tid, thread.mask & ~kSigtrapBit);
  return thread.mask_lifted;
}

void StepWhole::RestoreMask(Thread& thread) {
  if (thread.mask_lifted) SetSignalMask(thread.tid, thread.mask);
  thread.mask_lifted = false;
}

void StepWhole::RunOver(Thread& thread, int signal) {
  RestoreMask(thread);
  EndChunk(thread, BRINK_STOP_SIGNAL, thread.regs.ip);
  if (thread.phase != Phase::kRunOver) recorder_->Count(kGaps);
  thread.phase = Phase::kRunOver;
  Resume(thread, PTRACE_SYSCALL, signal);
}

void StepWhole::Advance(Thread& thread, int signal) {
  if (recorder_->Full(thread.window)) {
    EndChunk(thread, BRINK_STOP_FULL, thread.regs.ip);
    BeginChunk(thread);
  }
  if (thread.regs.flags & decode::kTrapFlag) {
    recorder_->Count(kOwnStepping);
    return RunOver(thread, signal);
  }
  stepper_.Look(thread);
  if (!thread.insn || thread.insn->flow != Flow::kSyscall) return stepper_.Go(thread, signal);
  RestoreMask(thread);
  thread.phase = Phase::kSyscall;
  thread.call_end = thread.regs.ip + thread.insn->length;
  Resume(thread, PTRACE_SYSCALL, signal);
}

void StepWhole::OnTrap(Thread& thread, TrapKind kind) {
  stepper_.Disarm(thread);
  if (kind != TrapKind::kHandler && thread.phase == Phase::kStep) {
    uint64_t before = thread.regs.ip;
    if (!stepper_.Arrive(thread)) {
      EndChunk(thread, BRINK_STOP_SIGNAL, before);
      BeginChunk(thread);
    }
    return Advance(thread);
  }
  if (kind == TrapKind::kHandler) {
    EndChunk(thread, BRINK_STOP_SIGNAL, thread.regs.ip);
    ReadRegs(thread.tid, &thread.regs);
    BeginChunk(thread);
    if (MayStep(thread, ~uint64_t{0})) return Advance(thread);
    return RunOver(thread);
  }
  OnEvent(thread);
}

void StepWhole::OnSyscall(Thread& thread) {
  ReadRegs(thread.tid, &thread.regs);
  SyscallStop stop = ReadSyscallStop(thread);
  // A restarted call comes back to its entry, or ends in a handler: either is seen without the trap flag.
  if (!stop.exit || stop.restarts) return Resume(thread, PTRACE_SYSCALL);
  if (thread.phase == Phase::kRunOver || thread.regs.ip != thread.call_end) {
    EndChunk(thread, BRINK_STOP_SYSCALL, thread.call_end);
    BeginChunk(thread);
  }
  if (stop.number == SYS_rt_sigaction || thread.phase == Phase::kRunOver) ReadIgnored(thread);
  if (MayStep(thread, stop.number)) Advance(thread);
  else RunOver(thread);
}

void StepWhole::OnSignal(Thread& thread, int signal) {
  stepper_.Disarm(thread);
  if (thread.phase == Phase::kRunOver) return Resume(thread, PTRACE_SYSCALL, signal);
  uint64_t before = thread.regs.ip;
  uint64_t mask = 0;
  bool blocked = thread.mask_lifted || (GetSignalMask(thread.tid, &mask) && (mask & kSigtrapBit));
  ReadRegs(thread.tid, &thread.regs);
  if (blocked) return RunOver(thread, signal);
  // A handler is entered under the trap flag, so that its first instruction is seen; else the flow goes on as it was.
  if (IsCaught(thread.tid, signal)) return stepper_.Go(thread, signal);
  if (thread.phase == Phase::kSyscall) return Resume(thread, PTRACE_SYSCALL, signal);
  if (thread.regs.ip != before) {
    EndChunk(thread, BRINK_STOP_SIGNAL, before);
    BeginChunk(thread);
  }
  Advance(thread, signal);
}

void StepWhole::OnEvent(Thread& thread) {
  switch (thread.phase) {
    case Phase::kStep: return stepper_.Go(thread);
    case Phase::kSyscall:
    case Phase::kRunOver: return Resume(thread, PTRACE_SYSCALL);
    case Phase::kFree: return Resume(thread, PTRACE_CONT);
  }
}

void StepWhole::Close(Thread& thread, bool alive) {
  if (!thread.machine.Is(ThreadState::kHopping)) return;
  if (alive) {
    stepper_.Disarm(thread);
    RestoreMask(thread);
  }
  EndChunk(thread, alive ? BRINK_STOP_SIGNAL : BRINK_STOP_EXIT, thread.regs.ip);
}

}  // namespace brink::ptrace
