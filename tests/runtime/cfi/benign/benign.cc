// benign NAME [ROUNDS]: honest programs whose control flow is unusual (B1 to B20 of docs/cfi.md). Exit status 0.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

int fds[2];
volatile long sink;

// A check point: a request that goes through a pipe.
void Breathe() {
  char c = 'x';
  if (write(fds[1], &c, 1) != 1 || read(fds[0], &c, 1) != 1) _exit(3);
  const timespec pause = {0, 300'000};
  nanosleep(&pause, nullptr);
}

__attribute__((noinline)) long Deep(int n) {
  if (n == 0) Breathe();
  const long below = n > 0 ? Deep(n - 1) : 1;
  asm volatile("" ::: "memory");
  return below + n;
}
void B1() { sink += Deep(200); }

__attribute__((noinline)) void Throw(int depth) {
  struct Guard {
    ~Guard() { Breathe(); }
  } guard;
  if (depth == 0) throw std::runtime_error("deep");
  Throw(depth - 1);
  asm volatile("" ::: "memory");
}
void B2() {
  try {
    Throw(5);
  } catch (const std::exception& e) {
    sink += e.what()[0];
    Breathe();
  }
}

jmp_buf back;
__attribute__((noinline)) void Leap(int depth) {
  if (depth == 0) {
    Breathe();
    longjmp(back, 1);
  }
  Leap(depth - 1);
  asm volatile("" ::: "memory");
}
void B3() {
  if (!setjmp(back)) Leap(4);
  Breathe();
}

ucontext_t here, there;
alignas(16) char other_stack[65536];
void There() {
  while (true) {
    Breathe();
    swapcontext(&there, &here);
  }
}
void B4() {
  static bool made;
  if (!made) {
    getcontext(&there);
    there.uc_stack.ss_sp = other_stack;
    there.uc_stack.ss_size = sizeof other_stack;
    makecontext(&there, There, 0);
    made = true;
  }
  for (int i = 0; i < 3; ++i) {
    swapcontext(&here, &there);
    Breathe();
  }
}

void OnInner(int) { Breathe(); }
void OnOuter(int) {
  raise(SIGUSR2);
  Breathe();
}
void B5() {
  static char alt[65536];
  static bool made;
  if (!made) {
    stack_t s = {.ss_sp = alt, .ss_flags = 0, .ss_size = sizeof alt};
    sigaltstack(&s, nullptr);
    struct sigaction a = {};
    a.sa_flags = SA_ONSTACK;
    a.sa_handler = OnOuter;
    sigaction(SIGUSR1, &a, nullptr);
    a.sa_handler = OnInner;
    sigaction(SIGUSR2, &a, nullptr);
    made = true;
  }
  raise(SIGUSR1);
  Breathe();
}

long Even(int n);
__attribute__((noinline, optimize("O2"))) long Odd(int n) {
  if (n == 0) return 0;
  if (n == 50) Breathe();
  return Even(n - 1);
}
__attribute__((noinline, optimize("O2"))) long Even(int n) { return n == 0 ? 1 : Odd(n - 1); }
void B6() { sink += Even(101); }

void B7() {
  static const void* const kOps[] = {&&add, &&sub, &&breathe, &&jump, &&end};
  const unsigned char program[] = {0, 0, 1, 2, 0, 3, 4};
  const unsigned char* at = program;
  long value = 0;
  int jumps = 0;
  goto* kOps[*at];
add:
  value += 3;
  goto* kOps[*++at];
sub:
  value -= 1;
  goto* kOps[*++at];
breathe:
  Breathe();
  goto* kOps[*++at];
jump:
  if (++jumps < 4) at = program - 1;
  goto* kOps[*++at];
end:
  sink += value;
}

void B8() {
  void* library = dlopen("libm.so.6", RTLD_LAZY);
  if (!library) _exit(3);
  auto function = reinterpret_cast<double (*)(double)>(dlsym(library, "cbrt"));
  sink += static_cast<long>(function(sink % 10 + 1.0));
  Breathe();
  dlclose(library);
}

long Fast(long x) { return x + 1; }
[[maybe_unused]] long Slow(long x) { return x + 2; }
// Runs before the program is relocated: no call of a library.
extern "C" void* ChooseIt() {
#ifdef __aarch64__
  return reinterpret_cast<void*>(Fast);
#else
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") ? reinterpret_cast<void*>(Fast) : reinterpret_cast<void*>(Slow);
#endif
}
extern "C" long Chosen(long x) __attribute__((ifunc("ChooseIt")));
void B9() {
  for (int i = 0; i < 5; ++i) sink = Chosen(sink), Breathe(), sink += static_cast<long>(strlen("abc"));
}

void B10() {
  static unsigned char* code;
  if (!code) {
#ifdef __aarch64__
    const uint32_t bytes[] = {0x91000400, 0xd65f03c0};  // add x0, x0, #1; ret
#else
    const unsigned char bytes[] = {0x48, 0x8d, 0x47, 0x01, 0xc3};  // lea 1(%rdi), %rax; ret
#endif
    code = static_cast<unsigned char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy(code, bytes, sizeof bytes);
    __builtin___clear_cache(reinterpret_cast<char*>(code), reinterpret_cast<char*>(code) + sizeof bytes);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
  }
  Breathe();
  sink = reinterpret_cast<long (*)(long)>(code)(sink);
  Breathe();
}

int Compare(const void* a, const void* b) {
  static int calls;
  if (++calls % 64 == 0) Breathe();
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}
void B13() {
  int values[200];
  for (int i = 0; i < 200; ++i) values[i] = (i * 7919) % 211;
  qsort(values, 200, sizeof(int), Compare);
}

void B14() {
  timespec t;
  for (int i = 0; i < 100; ++i) clock_gettime(CLOCK_MONOTONIC, &t);
  sink += t.tv_nsec;
  Breathe();
}

void* Cancelled(void*) {
  struct Guard {
    ~Guard() { ++sink; }
  } guard;
  while (true) {
    Breathe();
    pthread_testcancel();
  }
}
void B15() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Cancelled, nullptr)) _exit(3);
  usleep(1500);
  pthread_cancel(thread);
  pthread_join(thread, nullptr);
}

__attribute__((noinline, noclone)) long Probed(long x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}
void B17() {
  sink = Probed(sink);
  Breathe();
}

int InClone(void*) {
  Breathe();
  return 0;
}
void B19() {
  alignas(16) static char stack[65536];
  int status;
  if (pid_t child = fork(); child == 0) {
    Breathe();
    _exit(0);
  }
  wait(&status);
  if (pid_t child = vfork(); child == 0) _exit(0);
  wait(&status);
  if (clone(InClone, stack + sizeof stack, SIGCHLD, nullptr) > 0) wait(&status);
  Breathe();
}

struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};
Task Work(int n) {
  for (int i = 0; i < n; ++i) {
    Breathe();
    co_await std::suspend_always{};
  }
}
void B20() {
  Task task = Work(3);
  while (!task.handle.done()) {
    task.handle.resume();
    Breathe();
  }
  task.handle.destroy();
}

struct {
  const char* name;
  void (*run)();
} const kAll[] = {{"B1", B1}, {"B2", B2}, {"B3", B3}, {"B4", B4}, {"B5", B5}, {"B6", B6}, {"B7", B7}, {"B8", B8}, {"B9", B9}, {"B10", B10}, {"B13", B13},
                  {"B14", B14}, {"B15", B15}, {"B16", B13}, {"B17", B17}, {"B18", B2}, {"B19", B19}, {"B20", B20}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const auto& b : kAll) std::puts(b.name);
    return 0;
  }
  if (pipe(fds)) return 3;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 300;
  for (const auto& b : kAll) {
    if (std::strcmp(b.name, argv[1]) != 0) continue;
    for (int i = 0; i < rounds; ++i) b.run();
    return 0;
  }
  return 2;
}
