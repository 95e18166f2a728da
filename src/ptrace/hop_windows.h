// Sampling by hop: one hardware breakpoint is moved from branch to branch. Where the code alone tells the way (direct
// jumps and calls, matched returns) the thread is not stopped; at every other branch it stops just before it, and its
// registers decide, so that any condition can be passed.
//
// A branch is recorded when the thread has been seen at it or at the next stop behind it. A thread that does not come
// (two ticks without a hit) has strayed: what was only worked out is discarded.
#pragma once

#include "ptrace/windows.h"

namespace brink::ptrace {

class HopWindows : public Windows {
 public:
  explicit HopWindows(Recorder* recorder) : Windows(recorder) {}
  void OnTrap(Thread& thread, TrapKind kind) override;

 protected:
  void Advance(Thread& thread) override;
  void OnBusyTick(Thread& thread) override;
  void Undo(Thread& thread) override;

 private:
  // Takes the branch at thread.regs.ip by its live registers. False: it ended the window.
  bool TakeBranch(Thread& thread);
  void Confirm(Thread& thread);
  void Discard(Thread& thread);
  // Works out the path from `ip` on and sends the thread to its end.
  void Send(Thread& thread, uint64_t ip);
  // Moves the breakpoint to `ip` and resumes.
  void Await(Thread& thread, uint64_t ip);
  // Past the instruction that the thread stands at, without a breakpoint.
  void StepOff(Thread& thread);
};

}  // namespace brink::ptrace
