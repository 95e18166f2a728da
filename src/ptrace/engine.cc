#include <sys/ptrace.h>

#include "ptrace/hop_windows.h"
#include "ptrace/step_whole.h"
#include "ptrace/step_windows.h"

namespace brink::ptrace {

bool IsOwnTrap(const Thread& thread, TrapKind kind) {
  bool stepping = thread.phase == Thread::Phase::kStep;
  switch (kind) {
    case TrapKind::kStep: return stepping;
    case TrapKind::kBreakpoint: return thread.breakpoint_set;
    case TrapKind::kUnexplained: return stepping || thread.breakpoint_set;
    case TrapKind::kHandler: return true;
    case TrapKind::kForeign:
    case TrapKind::kTick:
    case TrapKind::kLateTick: break;
  }
  return false;
}

void Resume(Thread& thread, int request, int signal) {
  Ask(request, thread.tid, 0, reinterpret_cast<void*>(static_cast<uintptr_t>(signal)));
  thread.stopped = false;
}

std::unique_ptr<Engine> MakeEngine(Recorder* recorder) {
  const FollowConfig& config = recorder->config();
  if (config.hop) return std::make_unique<HopWindows>(recorder);
  if (config.whole_run) return std::make_unique<StepWhole>(recorder);
  return std::make_unique<StepWindows>(recorder);
}

}  // namespace brink::ptrace
