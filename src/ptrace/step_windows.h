// Sampling by single step: every instruction of a window is stepped over, every branch recorded as the CPU took it.
#pragma once

#include "ptrace/windows.h"

namespace brink::ptrace {

// One instruction by the trap flag, seen from outside. Shared with StepWhole.
class Stepper {
 public:
  explicit Stepper(Recorder* recorder) : recorder_(recorder) {}

  // Decodes the instruction at thread.regs.ip into thread.insn (nothing where it cannot be read or decoded).
  void Look(Thread& thread);
  // Resumes for this one instruction, or to the end of the exclusive access that it begins.
  void Go(Thread& thread, int signal = 0);
  // Takes off the breakpoints at that end. To be called in each stop before anything else resumes.
  void Disarm(Thread& thread);
  // After the trap: reads the registers and records the branch, if it was one. False: the thread is somewhere that the
  // instruction does not explain (a restartable sequence was aborted); nothing was recorded.
  bool Arrive(Thread& thread);

 private:
  bool ArriveBehind(Thread& thread, const Exclusive& exclusive);
  Recorder* recorder_;
};

class StepWindows : public Windows {
 public:
  explicit StepWindows(Recorder* recorder) : Windows(recorder), stepper_(recorder) {}
  void OnTrap(Thread& thread, TrapKind kind) override;

 protected:
  void Advance(Thread& thread) override;
  void OnBusyTick(Thread& thread) override;
  void Undo(Thread& thread) override;

 private:
  bool SpanEnds(const Thread& thread) const;
  Stepper stepper_;
};

}  // namespace brink::ptrace
