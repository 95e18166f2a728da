#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t alarms = 0;

__attribute__((noinline)) uint64_t Mix(uint64_t x) {
  for (int i = 0; i < 50; ++i) x = x & 1 ? x * 3 + 1 : (x >> 1) ^ 0x9e3779b97f4a7c15ull;
  return x;
}

uint64_t Compute(Clock::time_point end) {
  uint64_t sum = 0;
  while (Clock::now() < end) {
    for (uint64_t i = 0; i < 200; ++i) sum += Mix(i + sum);
    // Blocks every signal for a moment, as the C library does around pthread_create.
    sigset_t all, before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before);
    sum += Mix(sum);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
  }
  return sum;
}

bool ChildIsWell() {
  pid_t child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(Mix(static_cast<uint64_t>(::getpid())) & 1) + 40);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && (WEXITSTATUS(status) == 40 || WEXITSTATUS(status) == 41);
}

bool CommandIsWell() { return std::system("exit 9") == 9 << 8; }

}  // namespace

int Work(int milliseconds, int status) {
  struct sigaction action = {};
  action.sa_handler = [](int) { alarms = alarms + 1; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  struct itimerval every = {{0, 7000}, {0, 7000}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([end] {
      while (Clock::now() < end) {
        std::thread inner([] { Compute(Clock::now() + std::chrono::milliseconds(2)); });
        Compute(Clock::now() + std::chrono::milliseconds(3));
        inner.join();
      }
    });
  }
  bool well = true;
  while (Clock::now() < end) {
    Compute(Clock::now() + std::chrono::milliseconds(5));
    well = well && ChildIsWell() && CommandIsWell();
  }
  for (std::thread& thread : threads) thread.join();
  return well && alarms > 0 ? status : 99;
}

// Every turn takes the same branches: a call and its return, a conditional taken when odd, and the loop's own.
__attribute__((noinline)) int Branches(int count) {
  long odd = 0;
  for (int i = 0; i < count; ++i) {
#ifdef __aarch64__
    asm volatile(
        "bl 1f\n\t"
        "b 2f\n"
        "1: ret\n"
        "2: tbz %w1, #0, 3f\n\t"
        "add %0, %0, #1\n"
        "3:\n"
        : "+r"(odd)
        : "r"(i)
        : "cc", "memory", "x30");
#else
    asm volatile(
        "call 1f\n\t"
        "jmp 2f\n"
        "1: ret\n"
        "2: test $1, %1\n\t"
        "jz 3f\n\t"
        "inc %0\n"
        "3:\n"
        : "+r"(odd)
        : "r"(i)
        : "cc", "memory");
#endif
  }
  return odd == count / 2 ? 0 : 1;
}

// Three of four turns add one by an exclusive access, the fourth leaves it by its condition.
__attribute__((noinline)) int Exclusives(int count) {
  uint64_t word = 0;
  for (int i = 0; i < count; ++i) {
    uint64_t wanted = i % 4 == 3 ? ~uint64_t{0} : word;
#ifdef __aarch64__
    uint64_t value;
    uint32_t failed;
    asm volatile(
        "1: ldaxr %0, [%3]\n\t"
        "cmp %0, %4\n\t"
        "b.ne 2f\n\t"
        "add %0, %0, #1\n\t"
        "stlxr %w1, %0, [%3]\n\t"
        "cbnz %w1, 1b\n"
        "2:\n"
        : "=&r"(value), "=&r"(failed), "+m"(word)
        : "r"(&word), "r"(wanted)
        : "cc", "memory");
#else
    __atomic_compare_exchange_n(&word, &wanted, word + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
#endif
  }
  return word == static_cast<uint64_t>(count - count / 4) ? 0 : 1;
}
