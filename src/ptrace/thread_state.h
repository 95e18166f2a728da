// The states of a followed thread, and which may follow which.
//
//   idle      seized, nothing set up yet
//   armed     runs freely; its clock event (or its first stop) will bring the next sample
//   sampling  stopped by a tick: registers and call chain are being taken
//   hopping   a window is open: the thread moves under a hardware breakpoint (hop) or the trap flag (step)
//   draining  no new window; debug registers and trap flag are being cleared, own signals swallowed
//   dead      ended, or left behind clean; final
#pragma once

#include <cstdint>
#include <string_view>

namespace brink::ptrace {

enum class ThreadState : uint8_t { kIdle, kArmed, kSampling, kHopping, kDraining, kDead };
inline constexpr int kThreadStateCount = 6;

std::string_view StateName(ThreadState state);

// A transition to itself is illegal: nothing happened, so nothing should claim it.
bool IsLegalTransition(ThreadState from, ThreadState to);

// Holds one thread's state. An illegal transition must not abort (the helper's end would kill its tracees): it is
// refused, leaves the state as it was and is counted by the caller.
class ThreadStateMachine {
 public:
  ThreadState state() const { return state_; }
  bool Is(ThreadState state) const { return state_ == state; }
  [[nodiscard]] bool To(ThreadState next);

 private:
  ThreadState state_ = ThreadState::kIdle;
};

}  // namespace brink::ptrace
