// All that the helper knows of one followed thread, and the interface of what follows it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "decode/flow.h"
#include "ptrace/exclusive.h"
#include "ptrace/hop_scan.h"
#include "ptrace/thread_state.h"
#include "ptrace/tracee.h"
#include "ptrace/window.h"

namespace brink::ptrace {

// Shared by the threads of one process.
struct Process {
  bool sigtrap_ignored = false;  // as last seen
};

struct Thread {
  pid_t tid = 0;
  pid_t tgid = 0;
  std::shared_ptr<Process> process = std::make_shared<Process>();
  ThreadStateMachine machine;
  UniqueFd tick;               // clock event, where there is one
  bool had_tick = false;       // so a pending SIGTRAP may be ours
  bool stopped = false;        // in a ptrace stop now
  bool listening = false;      // in a group stop (SIGSTOP), resumed with PTRACE_LISTEN
  bool started = false;        // its first stop has been handed to the engine
  Window window;               // open in state hopping

  // step: what was resumed last, and with which registers
  enum class Phase : uint8_t {
    kFree,          // runs by itself
    kStep,          // one instruction, `insn`, with the trap flag
    kSyscall,       // towards or through a system call, without the trap flag
    kRunOver,       // a gap: to the end of the next system call
  } phase = Phase::kFree;
  Regs regs;
  std::optional<decode::Insn> insn;
  std::optional<Exclusive> exclusive;  // kStep: `insn` begins one, and the thread runs to its end
  bool mask_lifted = false;    // SIGTRAP is taken out of the mask for a while
  uint64_t mask = 0;           // the thread's own mask, while lifted
  uint64_t call_end = 0;       // where the system call under way returns to, if it just returns

  // hop
  Path path;                   // from the last stop to the next, not yet confirmed
  uint64_t stands = 0;         // address of the branch that was worked out and not yet executed; 0: none
  uint32_t ticks_without_hit = 0;
  bool breakpoint_set = false;
};

// Whether a SIGTRAP stop of this kind is of our making, ticks aside.
bool IsOwnTrap(const Thread& thread, TrapKind kind);

// Resumes a stopped thread by `request` (PTRACE_CONT, ...), delivering `signal` (0: none). The only way threads move.
void Resume(Thread& thread, int request, int signal = 0);

// What is done with stopped threads: StepWindows, StepWhole, HopWindows. Each call finds the thread stopped and leaves
// it resumed. Single-threaded.
class Engine {
 public:
  virtual ~Engine() = default;
  // First stop of a new thread or process, in user mode.
  virtual void OnStart(Thread& thread) = 0;
  // The program has just been replaced; `thread` is as new (idle), still inside the execve call.
  virtual void OnExec(Thread& thread) = 0;
  // Clock tick in user mode.
  virtual void OnTick(Thread& thread) = 0;
  // A trap of our own making (see IsOwnTrap).
  virtual void OnTrap(Thread& thread, TrapKind kind) = 0;
  // System call entry or exit (engines that resume with PTRACE_SYSCALL).
  virtual void OnSyscall(Thread& thread) = 0;
  // A signal that is the target's own is about to be delivered.
  virtual void OnSignal(Thread& thread, int signal) = 0;
  // A ptrace event that is no news for the flow (fork, clone, ...).
  virtual void OnEvent(Thread& thread) = 0;
  // SIGSTOP and its kin: the caller resumes by PTRACE_LISTEN, the engine does not.
  virtual void OnGroupStop(Thread& thread) = 0;
  // The thread is about to be left behind or is gone (`alive` false): writes out what there is; undoes in a stopped
  // thread what must not stay. Does not resume.
  virtual void Close(Thread& thread, bool alive) = 0;
};

// Engine for the configuration. `recorder` outlives it.
std::unique_ptr<Engine> MakeEngine(Recorder* recorder);

}  // namespace brink::ptrace
