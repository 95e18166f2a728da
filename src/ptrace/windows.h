// What sampling by hop and sampling by step have in common: a tick opens a window, the window closes after N branches,
// at a system call, a signal or the end of the thread, and the thread runs freely until the next tick.
#pragma once

#include "ptrace/thread.h"

namespace brink::ptrace {

class Windows : public Engine {
 public:
  explicit Windows(Recorder* recorder) : recorder_(recorder) {}

  void OnStart(Thread& thread) override;
  void OnExec(Thread& thread) override;
  void OnTick(Thread& thread) override;
  void OnSyscall(Thread& thread) override;
  void OnSignal(Thread& thread, int signal) override;
  void OnEvent(Thread& thread) override;
  void OnGroupStop(Thread& thread) override;
  void Close(Thread& thread, bool alive) override;

 protected:
  // The window is open, the thread stopped with thread.regs: moves it on, or finishes.
  virtual void Advance(Thread& thread) = 0;
  // A tick came in an open window.
  virtual void OnBusyTick(Thread& thread) = 0;
  // The window is about to be written: takes off the thread what the window put on it.
  virtual void Undo(Thread& thread) = 0;

  // Writes the window out and lets the thread run on, delivering `signal`.
  void Finish(Thread& thread, brink_stop stop, uint64_t end_ip, int signal = 0);
  bool Open(const Thread& thread) const { return thread.machine.Is(ThreadState::kHopping); }
  void To(Thread& thread, ThreadState state);

  Recorder* recorder_;

 private:
  bool MayOpen(Thread& thread);
  void Write(Thread& thread, brink_stop stop, uint64_t end_ip);
};

}  // namespace brink::ptrace
