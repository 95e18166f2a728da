// The whole run of a thread by single step: every branch of every instruction in user mode, in chunks.
//
// A chunk ends where the straight line of records ends: when it is full, at a signal (a new one begins in the handler),
// where a system call returns somewhere else (exec, sigreturn), and at a gap. System calls that return to the next
// instruction do not end it and are no records.
//
// What keeps the target whole: system calls are never stepped (PTRACE_SYSCALL carries over them, without the trap flag,
// so that no flags image shows it and no SIGTRAP meets a mask); in code that runs with SIGTRAP blocked the mask is
// lifted between system calls and put back before the next; where it cannot be lifted, or the process ignores SIGTRAP,
// the thread runs freely up to the end of its next system call, and that gap is counted.
#pragma once

#include "ptrace/step_windows.h"

namespace brink::ptrace {

class StepWhole : public Engine {
 public:
  explicit StepWhole(Recorder* recorder) : recorder_(recorder), stepper_(recorder) {}

  void OnStart(Thread& thread) override;
  void OnExec(Thread& thread) override;
  void OnTick(Thread& thread) override;
  void OnTrap(Thread& thread, TrapKind kind) override;
  void OnSyscall(Thread& thread) override;
  void OnSignal(Thread& thread, int signal) override;
  void OnEvent(Thread& thread) override;
  void OnGroupStop(Thread&) override {}
  void Close(Thread& thread, bool alive) override;

 private:
  // Brings the state to hopping, where a whole run stays.
  void Engage(Thread& thread);
  void BeginChunk(Thread& thread);
  void EndChunk(Thread& thread, brink_stop stop, uint64_t end_ip);
  // Moves the thread on from thread.regs, by one instruction or over a system call, delivering `signal`.
  void Advance(Thread& thread, int signal = 0);
  void ReadIgnored(Thread& thread);
  // Whether instructions can be stepped here: settles mask and disposition of SIGTRAP first.
  bool MayStep(Thread& thread, uint64_t syscall);
  void RunOver(Thread& thread, int signal = 0);
  void RestoreMask(Thread& thread);

  Recorder* recorder_;
  Stepper stepper_;
};

}  // namespace brink::ptrace
