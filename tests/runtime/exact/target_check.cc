#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

extern char** environ;

namespace {

constexpr uint64_t kTrapFlag = 0x100;

volatile sig_atomic_t traps = 0, trap_code = 0, handler_masked = 0;
volatile uint64_t saved_flags = 0;

#ifdef __x86_64__

uint64_t Flags() {
  uint64_t flags;
  asm volatile("pushfq\n\tpop %0" : "=r"(flags)::"memory");
  return flags;
}

// r11 holds the flags after a system call.
uint64_t FlagsOfCall() {
  uint64_t r11, result;
  asm volatile("syscall\n\tmov %%r11, %0" : "=r"(r11), "=a"(result) : "a"(39) : "rcx", "r11", "memory");
  return r11;
}

uint64_t FlagsOfSignal(const ucontext_t& context) { return static_cast<uint64_t>(context.uc_mcontext.gregs[REG_EFL]); }

#define BREAKPOINT "int3"

#else

// Programs cannot read the step bit; what a signal's frame shows of it they can.
constexpr uint64_t kStepBit = 1 << 21;
constexpr uint32_t kBreakpoint = 0xd4200000;

uint64_t Flags() { return 0; }
uint64_t FlagsOfCall() { return 0; }
// A breakpoint instruction is stood at, not behind: the handler goes on behind it.
uint64_t FlagsOfSignal(ucontext_t& context) {
  auto& machine = context.uc_mcontext;
  if (*reinterpret_cast<const uint32_t*>(machine.pc) == kBreakpoint) machine.pc += 4;
  return machine.pstate & kStepBit ? kTrapFlag : 0;
}

#define BREAKPOINT "brk #0"

#endif

bool Blocked(int signal) {
  sigset_t now;
  ::sigprocmask(SIG_BLOCK, nullptr, &now);
  return ::sigismember(&now, signal);
}

// Turns of a loop with everything that a step or a hop might spoil, counted.
struct Seen {
  int trap_flag = 0, call_trap_flag = 0, mask = 0, handler = 0;
};

Seen Watch(int turns, bool blocked, void (*handler)(int)) {
  Seen seen;
  volatile uint64_t sum = 0;
  for (int i = 0; i < turns; ++i) {
    if (Flags() & kTrapFlag) ++seen.trap_flag;
    if (i % 64 == 0) {
      if (FlagsOfCall() & kTrapFlag) ++seen.call_trap_flag;
      if (Blocked(SIGTRAP) != blocked) ++seen.mask;
      struct sigaction now;
      ::sigaction(SIGTRAP, nullptr, &now);
      if (now.sa_handler != handler) ++seen.handler;
    }
    for (int j = 0; j < 50; ++j) sum = sum * 31 + static_cast<uint64_t>(j & i);
  }
  return seen;
}

void Print(const char* what, const Seen& seen) {
  std::printf("%s: trap flag seen %d, after calls %d, mask wrong %d, handler wrong %d\n", what, seen.trap_flag,
              seen.call_trap_flag, seen.mask, seen.handler);
}

void OnTrap(int) { traps = traps + 1; }

void OnTrapInfo(int, siginfo_t* info, void* context) {
  traps = traps + 1;
  trap_code = info->si_code;
  saved_flags = FlagsOfSignal(*static_cast<ucontext_t*>(context));
  handler_masked = Blocked(SIGTRAP);
}

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigaction(SIGTRAP, &action, nullptr);
}

void SetMask(bool block) {
  sigset_t trap;
  ::sigemptyset(&trap);
  ::sigaddset(&trap, SIGTRAP);
  ::sigprocmask(block ? SIG_BLOCK : SIG_UNBLOCK, &trap, nullptr);
}

void OwnTraps() {
  struct sigaction action = {};
  action.sa_sigaction = OnTrapInfo;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGTRAP, &action, nullptr);
  for (int i = 0; i < 100; ++i) ::raise(SIGTRAP);
  std::printf("raised: traps %d code %d masked %d flags %s\n", traps, trap_code, handler_masked,
              saved_flags & kTrapFlag ? "TF" : "clean");
  for (int i = 0; i < 100; ++i) asm volatile(BREAKPOINT);
  std::printf("int3: traps %d code %d flags %s\n", traps, trap_code, saved_flags & kTrapFlag ? "TF" : "clean");
#ifdef __x86_64__
  // Its own trap flag for three instructions.
  traps = 0;
  asm volatile(
      "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tnop" ::: "memory", "cc");
  std::printf("own trap flag: traps %s code %d\n", traps > 3 ? "several" : "few", trap_code);
#endif
}

void PendingWhileBlocked(int turns) {
  traps = 0;
  SetHandler(OnTrap);
  SetMask(true);
  ::raise(SIGTRAP);
  Seen seen = Watch(turns, true, OnTrap);
  sigset_t pending;
  ::sigpending(&pending);
  std::printf("pending %d, taken %d; ", ::sigismember(&pending, SIGTRAP), traps);
  Print("blocked with one pending", seen);
  SetMask(false);
  std::printf("unblocked: taken %d\n", traps);
}

void Children(int turns) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(Watch(turns, false, SIG_DFL).trap_flag + 5);
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("fork: status %x\n", status);
  char self[] = "/proc/self/exe", command[] = "exit", six[] = "6";
  char* words[] = {self, command, six, nullptr};
  int error = ::posix_spawn(&child, self, nullptr, nullptr, words, environ);
  ::waitpid(child, &status, 0);
  std::printf("posix_spawn: error %d status %x\n", error, status);
  int sum = 0;
  std::thread thread([&] { sum = Watch(turns, false, SIG_DFL).trap_flag; });
  thread.join();
  std::printf("thread: %d\n", sum);
}

}  // namespace

int Check(int turns) {
  Print("plain", Watch(turns, false, SIG_DFL));
  Children(turns);
  SetHandler(SIG_IGN);
  Print("ignored", Watch(turns, false, SIG_IGN));
  ::raise(SIGTRAP);
  SetHandler(OnTrap);
  Print("handled", Watch(turns, false, OnTrap));
  std::printf("handler ran %d times\n", traps);
  SetMask(true);
  Print("blocked", Watch(turns, true, OnTrap));
  SetMask(false);
  std::printf("handler ran %d times\n", traps);
  PendingWhileBlocked(turns);
  traps = 0;
  OwnTraps();
  std::fflush(stdout);
  return 17;
}
