// One stopped thread as ptrace shows it: registers, memory, signal mask, debug registers, and the ways to resume it.
//
// Everything architecture-dependent of the exact sources is here and in decode/: tracee_x86.cc, tracee_a64.cc. All calls
// need a ptrace-stopped thread seized by the calling thread, unless said otherwise; a thread that was killed meanwhile
// makes them fail, which is never an error to report: its end comes through waitpid.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <span>

#include "base/status.h"
#include "decode/flow.h"

namespace brink::ptrace {

// Registers in the decoder's form, and the kernel's own for callers that know the architecture.
struct Regs : decode::CpuRegs {
  struct user_regs_struct raw = {};
  bool is_64bit = true;
};

// Copies between the two forms (raw -> decoder's fields).
void FillView(Regs* regs);

bool ReadRegs(pid_t tid, Regs* out);
bool WriteRegs(pid_t tid, const struct user_regs_struct& raw);

// Memory of a thread's process. Also works on running threads. Reads what can be read: short at a bad page.
class ProcessMemory : public decode::Memory {
 public:
  explicit ProcessMemory(pid_t tid) : tid_(tid) {}
  size_t Read(uint64_t address, void* out, size_t size) override;
  bool Write(uint64_t address, const void* data, size_t size);
  pid_t tid() const { return tid_; }

 private:
  pid_t tid_;
};

// The one hardware breakpoint that hop moves: execution of `address`. Clear also when nothing was set.
bool SetBreakpoint(pid_t tid, uint64_t address);
bool MoveBreakpoint(pid_t tid, uint64_t address);
bool ClearBreakpoint(pid_t tid);
// Several at once, in place of all that were set; false where the CPU has not so many.
inline constexpr size_t kMostBreakpoints = 4;
bool SetBreakpoints(pid_t tid, std::span<const uint64_t> addresses);

// A pushed flags image at `sp` shows the tracer's trap flag: takes it out again.
void HidePushedTrapFlag(pid_t tid, uint64_t sp);

// Whether this build can follow threads at all; the error says what it needs.
Status CheckArchitecture();

// ---- the same on every architecture

enum class TrapKind : uint8_t {
  kForeign,     // the target's own SIGTRAP: raised, breakpoint instruction, another event's
  kTick,        // our clock event
  kLateTick,    // our clock event, delivered after SIGTRAP had been blocked: the place means nothing
  kStep,        // single step done
  kBreakpoint,  // hardware breakpoint
  kHandler,     // ptrace's own stop at the first instruction of a signal handler
  kUnexplained, // debug exception without a reason in DR6: virtual machines lose it now and then (measured: once in
                // 50,000 to 200,000 single steps); who has a debug exception under way takes it as its own
};
// Cookie by which our clock events are told from the target's own.
inline constexpr uint64_t kTickCookie = 0x6b6e697262ull;

// A request to a stopped thread of ours. Asked again where it fails for another reason than the end of the thread: one that is
// not resumed stands still for ever. False: both failed.
bool Ask(int request, pid_t tid, uintptr_t address, void* data);

// Why the thread stands in a SIGTRAP stop. kUnexplained where the kernel does not say (a SIGTRAP passed on by mistake kills).
TrapKind ClassifyTrap(pid_t tid);

bool GetSignalMask(pid_t tid, uint64_t* out);
bool SetSignalMask(pid_t tid, uint64_t mask);
inline constexpr uint64_t kSigtrapBit = uint64_t{1} << (SIGTRAP - 1);

// Lines of /proc/TID/status that matter here. Works on running threads.
struct SignalStatus {
  pid_t tgid = 0;
  uint64_t pending = 0, blocked = 0, ignored = 0, caught = 0;
  uint64_t switches = 0;   // context switches: unchanged means that the thread has not run
  char state = '?';        // R, S, D, T, t, Z, X

  bool zombie() const { return state == 'Z' || state == 'X'; }
  bool sleeping() const { return state == 'S' || state == 'D'; }
};
bool ReadSignalStatus(pid_t tid, SignalStatus* out);
// CPU that the thread last ran on, or -1. Works on running threads.
int LastCpu(pid_t tid);
// Moves the calling thread to `cpu`. A stop costs a third when tracer and thread share a core (measured: 19 against
// 60 us a step).
void JoinCpu(int cpu);
// True where the thread is in a system call (also when it sleeps there); false in user mode or unknown.
bool InSyscall(pid_t tid);

// Per-thread clock event that stops the thread with SIGTRAP every `period_ns` of its user time, disabled by exec.
// Returns the descriptor. `tid` need not be stopped. With `at` the thread is stopped each time before it executes that
// address instead (a hardware breakpoint).
StatusOr<int> OpenTick(pid_t tid, uint64_t period_ns, uint64_t at = 0);

}  // namespace brink::ptrace
