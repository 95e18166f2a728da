#include "ptrace/thread_state.h"

namespace brink::ptrace {
namespace {

constexpr uint8_t Bit(ThreadState state) { return static_cast<uint8_t>(1u << static_cast<int>(state)); }
constexpr uint8_t kEnds = Bit(ThreadState::kDraining) | Bit(ThreadState::kDead);

// Row: from. Bits: to.
constexpr uint8_t kLegal[kThreadStateCount] = {
    /* idle */ Bit(ThreadState::kArmed) | kEnds,
    /* armed */ Bit(ThreadState::kSampling) | kEnds,
    /* sampling */ Bit(ThreadState::kHopping) | Bit(ThreadState::kArmed) | kEnds,
    /* hopping */ Bit(ThreadState::kArmed) | kEnds,
    /* draining */ Bit(ThreadState::kDead),
    /* dead */ 0,
};

}  // namespace

std::string_view StateName(ThreadState state) {
  switch (state) {
    case ThreadState::kIdle: return "idle";
    case ThreadState::kArmed: return "armed";
    case ThreadState::kSampling: return "sampling";
    case ThreadState::kHopping: return "hopping";
    case ThreadState::kDraining: return "draining";
    case ThreadState::kDead: return "dead";
  }
  return "invalid";
}

bool IsLegalTransition(ThreadState from, ThreadState to) { return kLegal[static_cast<int>(from)] & Bit(to); }

bool ThreadStateMachine::To(ThreadState next) {
  if (!IsLegalTransition(state_, next)) return false;
  state_ = next;
  return true;
}

}  // namespace brink::ptrace
