#include "ptrace/windows.h"

#include <sys/ptrace.h>

namespace brink::ptrace {

void Windows::To(Thread& thread, ThreadState state) {
  if (!thread.machine.To(state)) recorder_->Count(kIllegalState);
}

void Windows::OnStart(Thread& thread) {
  if (thread.machine.Is(ThreadState::kIdle)) To(thread, ThreadState::kArmed);
  Resume(thread, PTRACE_CONT);
}

void Windows::OnExec(Thread& thread) { OnStart(thread); }

// A window makes SIGTRAPs. Where the process ignores that signal the kernel would reset its disposition.
bool Windows::MayOpen(Thread& thread) {
  SignalStatus status;
  if (!ReadRegs(thread.tid, &thread.regs) || !ReadSignalStatus(thread.tid, &status)) return false;
  if (!thread.regs.is_64bit) {
    recorder_->Count(kCompat);
  } else if (status.ignored & kSigtrapBit) {
    recorder_->Count(kSigtrapIgnored);
  } else if (status.blocked & kSigtrapBit) {
    recorder_->Count(kSigtrapBlocked);
  } else if (thread.regs.flags & decode::kTrapFlag) {
    recorder_->Count(kOwnStepping);
  } else {
    return true;
  }
  return false;
}

void Windows::OnTick(Thread& thread) {
  recorder_->Count(kTicks);
  if (Open(thread)) {
    recorder_->Count(kBusy);
    OnBusyTick(thread);
    return;
  }
  if (!thread.machine.Is(ThreadState::kArmed)) {  // exec'd or leaving: the tick is an echo
    Resume(thread, PTRACE_CONT);
    return;
  }
  To(thread, ThreadState::kSampling);
  if (!MayOpen(thread)) {
    To(thread, ThreadState::kArmed);
    Resume(thread, PTRACE_CONT);
    return;
  }
  int cpu = LastCpu(thread.tid);
  if (cpu >= 0) JoinCpu(cpu);
  recorder_->Begin(thread.tid, thread.regs, cpu < 0 ? 0 : static_cast<uint32_t>(cpu), &thread.window);
  To(thread, ThreadState::kHopping);
  Advance(thread);
}

void Windows::Write(Thread& thread, brink_stop stop, uint64_t end_ip) {
  Undo(thread);
  recorder_->Emit(thread.tgid, thread.tid, stop, end_ip, &thread.window);
  To(thread, ThreadState::kArmed);
}

void Windows::Finish(Thread& thread, brink_stop stop, uint64_t end_ip, int signal) {
  Write(thread, stop, end_ip);
  Resume(thread, PTRACE_CONT, signal);
}

void Windows::OnSyscall(Thread& thread) { Resume(thread, PTRACE_CONT); }

void Windows::OnSignal(Thread& thread, int signal) {
  if (!Open(thread)) {
    Resume(thread, PTRACE_CONT, signal);
    return;
  }
  Regs now;
  Finish(thread, BRINK_STOP_SIGNAL, ReadRegs(thread.tid, &now) ? now.ip : 0, signal);
}

// System calls end windows, so an event of one meets a closed window.
void Windows::OnEvent(Thread& thread) {
  if (Open(thread)) Finish(thread, BRINK_STOP_SIGNAL, 0);
  else Resume(thread, PTRACE_CONT);
}

void Windows::OnGroupStop(Thread& thread) {
  if (Open(thread)) Write(thread, BRINK_STOP_SIGNAL, 0);
}

void Windows::Close(Thread& thread, bool alive) {
  if (!Open(thread)) return;
  if (alive) Undo(thread);
  recorder_->Emit(thread.tgid, thread.tid, alive ? BRINK_STOP_SIGNAL : BRINK_STOP_EXIT, 0, &thread.window);
}

}  // namespace brink::ptrace
