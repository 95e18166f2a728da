// How the tracer leaves: no thread may keep a debug register, a trap flag, a lifted mask or a SIGTRAP of ours.
//
// PTRACE_INTERRUPT would end system calls with EINTR, so threads are not stopped for leaving. One that sleeps in the
// kernel with none of these is left where it is: the end of the helper detaches it. One in user mode is caught by its
// next tick, and detached there. One under way to a step or a hop stops by itself. Only a hop that does not arrive and
// a thread in a group stop are interrupted.
#include <csignal>

#include <sys/ptrace.h>

#include "ptrace/tracer.h"

namespace brink::ptrace {
namespace {

// Something of ours is on the thread that only a stop can take off.
bool HasBusiness(const Thread& thread) {
  return thread.listening || thread.breakpoint_set || thread.mask_lifted || thread.phase == Thread::Phase::kStep;
}

}  // namespace

void Tracer::BeginLeave() {
  if (leaving_) return;
  leaving_ = true;
  for (auto& [tid, thread] : threads_) {
    // A stopped thread that listens for SIGCONT must be caught again before it can be detached.
    if (thread->listening) Ask(PTRACE_INTERRUPT, tid, 0, nullptr);
  }
}

void Tracer::LeaveStopped(Thread& thread, int signal, int event) {
  int deliver = 0;
  if (event == 0 && signal == SIGTRAP) {
    TrapKind kind = ClassifyTrap(thread.tid);
    bool stepping = thread.phase == Thread::Phase::kStep;
    bool own = kind == TrapKind::kTick || kind == TrapKind::kLateTick || IsOwnTrap(thread, kind);
    // The last step of a thread may have pushed its flags.
    if (own && stepping && thread.insn && thread.insn->pushes_flags && ReadRegs(thread.tid, &thread.regs)) {
      HidePushedTrapFlag(thread.tid, thread.regs.sp());
    }
    deliver = own ? 0 : SIGTRAP;
  } else if (event == 0 && signal != (SIGTRAP | 0x80)) {
    deliver = signal;
  }
  engine_->Close(thread, true);
  Detach(thread, deliver);
}

void Tracer::Detach(Thread& thread, int signal) {
  thread.tick.Reset();
  if (thread.breakpoint_set) ClearBreakpoint(thread.tid);
  thread.breakpoint_set = false;
  thread.phase = Thread::Phase::kFree;
  SignalStatus status;
  bool tick_waits = thread.had_tick && ReadSignalStatus(thread.tid, &status) && (status.pending & kSigtrapBit);
  if (tick_waits) {
    // A tick of ours is queued: it must be swallowed at its own stop, or it would end the process.
    Resume(thread, PTRACE_CONT, signal);
    return;
  }
  if (!thread.machine.To(ThreadState::kDraining) || !thread.machine.To(ThreadState::kDead)) {
    recorder_.Count(kIllegalState);
  }
  Ask(PTRACE_DETACH, thread.tid, 0, reinterpret_cast<void*>(static_cast<uintptr_t>(signal)));
  threads_.erase(thread.tid);
}

bool Tracer::StillDirty(Thread& thread) {
  SignalStatus before, after;
  if (!ReadSignalStatus(thread.tid, &before) || before.zombie()) return false;
  if (HasBusiness(thread)) return true;
  if (thread.tick.valid()) {
    if (!before.sleeping()) return true;  // in user mode, or soon: its tick will catch it
    thread.tick.Reset();
    bool slept_on = ReadSignalStatus(thread.tid, &after) && after.sleeping() && after.switches == before.switches;
    if (!slept_on) {
      Arm(thread);
      return true;
    }
  }
  // A tick that found SIGTRAP blocked waits in the queue until the thread unblocks it, and we with it.
  if (thread.had_tick && (before.pending & kSigtrapBit)) return true;
  engine_->Close(thread, false);
  return false;
}

void Tracer::NudgeDirty(uint64_t waited_ms) {
  // A hop that has strayed: nobody knows when it comes by itself.
  constexpr uint64_t kPatienceMs = 50;
  if (waited_ms < kPatienceMs || waited_ms % kPatienceMs != 0) return;
  for (auto& [tid, thread] : threads_) {
    if (!HasBusiness(*thread)) continue;
    if (InSyscall(tid)) recorder_.Count(kInterrupted);
    Ask(PTRACE_INTERRUPT, tid, 0, nullptr);
  }
}

}  // namespace brink::ptrace
