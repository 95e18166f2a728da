#include "target.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

extern "C" {

volatile long snap_watched;
volatile int snap_sink;

__attribute__((noinline)) int snap_work(int number, const char* text) {
  snap_sink = number + (text ? text[0] : 0);
  return number - 3;
}
int snap_wrk(int number, const char* text) __attribute__((alias("snap_work"), nothrow));

static inline __attribute__((always_inline)) int snap_inlined(int number) { return number * 3 + 1; }

__attribute__((noinline)) void snap_multi_a() { snap_sink = 1; }
__attribute__((noinline)) void snap_multi_b() { snap_sink = 2; }
__attribute__((noinline)) void snap_multi_c() { snap_sink = 3; }

// Which branch decided? Digits up to a minus sign, which ends it at once.
__attribute__((noinline)) int snap_decide(const char* text) {
  int digits = 0;
  for (; *text; ++text) {
    if (*text >= '0' && *text <= '9') digits = digits + snap_sink % 2 + 1;
    else if (*text == '-') return -1;
  }
  return digits;
}

__attribute__((noinline)) void snap_sleep(int ms) {
  usleep(static_cast<useconds_t>(ms) * 1000);
}

__attribute__((noinline)) void snap_fault(volatile int* at) { *at = 1; }
__attribute__((noinline)) void snap_abort() { abort(); }
__attribute__((noinline)) int snap_overflow(int depth) {
  volatile char room[1024];
  room[depth & 1023] = static_cast<char>(depth);
  return depth == -1 ? 0 : snap_overflow(depth + 1) + room[depth & 1023];
}
__attribute__((noinline)) void snap_jump(void (*where)()) {
  where();
  snap_sink = 4;
}

#if defined(__x86_64__)
// One instruction of five bytes, and another.
extern "C" int snap_five_bytes();
asm(".text\n.type snap_five_bytes, @function\nsnap_five_bytes: movl $0x12345678, %eax\nret\n.size snap_five_bytes, . - snap_five_bytes\n");
#endif

#if defined(__x86_64__)
// Begins with a vector instruction whose opcode byte (74) is also that of a jump.
__attribute__((naked, noinline)) long snap_vector() { asm("vpcmpeqb %xmm0, %xmm0, %xmm0\n nop\n vmovq %xmm0, %rax\n ret"); }
#endif

// Raised while somebody listens to the probe.
__attribute__((section(".probes"))) volatile unsigned short snap_hello_semaphore;

#if defined(__x86_64__)
// What <sys/sdt.h> would make of a probe snaptest:hello(number, text): a nop and a note about it.
__attribute__((noinline)) void snap_hello(int number, const char* text) {
  asm volatile(
      "990: nop\n"
      ".pushsection .note.stapsdt,\"\",\"note\"\n"
      ".balign 4\n"
      ".4byte 992f-991f, 994f-993f, 3\n"
      "991: .asciz \"stapsdt\"\n"
      "992: .balign 4\n"
      "993: .8byte 990b\n"
      ".8byte _.stapsdt.base\n"
      ".8byte snap_hello_semaphore\n"
      ".asciz \"snaptest\"\n"
      ".asciz \"hello\"\n"
      ".asciz \"-4@%0 8@%1\"\n"
      "994: .balign 4\n"
      ".popsection\n"
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
      ".weak _.stapsdt.base\n"
      ".hidden _.stapsdt.base\n"
      "_.stapsdt.base: .space 1\n"
      ".size _.stapsdt.base, 1\n"
      ".popsection\n"
      :
      : "r"(number), "r"(text));
}
#endif

}  // extern "C"

namespace brink::snap_tests {
namespace {

volatile int* const kNowhere = reinterpret_cast<volatile int*>(8);

void* OverflowThread(void*) {
  snap_sink = snap_overflow(0);
  return nullptr;
}

void* FaultThread(void*) {
  snap_fault(kNowhere);
  return nullptr;
}

void InThread(void* (*body)(void*)) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_create(&thread, &attributes, body, nullptr);
  pthread_join(thread, nullptr);
}

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

void OverflowInHandler(int) { snap_sink = snap_overflow(0); }

void FaultInHandler(int) {
  // The second fault comes while the first is handled: SIGSEGV is blocked, the kernel forces it.
  snap_fault(kNowhere);
}

void UseAlternateStack() {
  constexpr size_t kSize = 64 * 1024;
  static char* stack = static_cast<char*>(mmap(nullptr, kSize * 3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(stack + kSize, kSize, PROT_READ | PROT_WRITE);
  stack_t alternate = {.ss_sp = stack + kSize, .ss_flags = 0, .ss_size = kSize};
  sigaltstack(&alternate, nullptr);
}

sigjmp_buf back;
void JumpBack(int) { siglongjmp(back, 1); }

// As run times do that check for null by faulting.
int HandledFaults() {
  Handle(SIGSEGV, JumpBack, SA_NODEFER);
  volatile int caught = 0;
  volatile int i = 0;
  while (i < 200) {
    if (sigsetjmp(back, 1) == 0) snap_fault(kNowhere);
    const int before = caught;
    caught = before + 1;
    i = before + 1;
  }
  return caught == 200 ? 0 : 1;
}

int KilledByAnother() {
  int ready[2];
  if (pipe(ready) != 0) return 2;
  pid_t child = fork();
  if (child == 0) {
    snap_sink = static_cast<int>(write(ready[1], "x", 1));
    while (true) pause();
  }
  char c;
  snap_sink = static_cast<int>(read(ready[0], &c, 1));
  kill(child, SIGSEGV);
  int status;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? 0 : 1;
}

void BlockSegv() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSEGV);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

// lseek gives what it is asked for, or EINVAL: results that are known beforehand.
int Seeks() {
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  for (int i = -3; i <= 4; ++i) syscall(SYS_lseek, fd, static_cast<long>(i), SEEK_SET);
  return 0;
}

int Works() {
  for (int i = 0; i < 8; ++i) snap_sink = snap_work(i, i % 2 ? "odd" : "even");
  return 0;
}

int Forks() {
  for (int i = 0; i < 3; ++i) {
    pid_t child = fork();
    if (child == 0) {
      if (i == 2) execl("/bin/true", "true", nullptr);
      _exit(i);
    }
    waitpid(child, nullptr, 0);
  }
  return 0;
}

int Handled() {
  Handle(SIGUSR1, [](int) { snap_sink = 7; }, 0);
  for (int i = 0; i < 3; ++i) raise(SIGUSR1);
  return 0;
}

// Lives on for a while, so that its own files can still be looked at.
int Linger() {
  Handle(SIGUSR1, [](int) { snap_sink = 8; }, 0);
  raise(SIGUSR1);
  usleep(1'000'000);
  return 0;
}

// Hits only while the semaphore is up.
int Hello() {
#if defined(__x86_64__)
  for (int i = 0; i < 5 && snap_hello_semaphore; ++i) snap_hello(i, "moon");
#endif
  return snap_hello_semaphore;
}

// Uses memory until something ends it; gives up at 1 GiB.
int Eat() {
  constexpr size_t kPiece = 1 << 20;
  for (int i = 0; i < 1024; ++i) {
    void* piece = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece != MAP_FAILED) memset(piece, i, kPiece);
  }
  return 3;
}

// "forks=N": children that end at once, as fast as they can be made; each Nth of 8 executes a program.
int ForkStorm(int count) {
  for (int i = 0; i < count; ++i) {
    pid_t child = fork();
    if (child == 0) {
      if (i % 8 == 0) execl("/bin/true", "true", nullptr);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  return 0;
}

void* Nap(void*) {
  snap_sleep(1);
  return nullptr;
}

// "threads=N": each calls snap_sleep once, a hundred at a time.
int ThreadStorm(int count) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  for (int done = 0; done < count;) {
    pthread_t threads[100];
    int made = 0;
    for (; made < 100 && done < count; ++made, ++done) {
      if (pthread_create(&threads[made], &attributes, Nap, nullptr) != 0) return 2;
    }
    for (int i = 0; i < made; ++i) pthread_join(threads[i], nullptr);
  }
  return 0;
}

// "groups=DIR:N": makes DIR/0 to DIR/N-1, enters each and works there once; removes them.
int GroupStorm(const std::string& mode) {
  const size_t colon = mode.rfind(':');
  const std::string base = mode.substr(7, colon - 7);
  const int count = std::stoi(mode.substr(colon + 1));
  auto enter = [](const std::string& path) {
    int fd = open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, "0", 1);
    close(fd);
    return n == 1;
  };
  for (int i = 0; i < count; ++i) {
    const std::string path = base + "/" + std::to_string(i);
    if (mkdir(path.c_str(), 0755) != 0 || !enter(path)) return 2;
    snap_sink = snap_work(i, "group");
    if (!enter(base) || rmdir(path.c_str()) != 0) return 4;
  }
  return 0;
}

// Opens a file as an ordinary user: "open=PATH", "open-write=PATH".
int Open(const std::string& mode) {
  size_t at = mode.find('=');
  if (setgid(1000) != 0 || setuid(1000) != 0) return 2;
  syscall(SYS_openat, AT_FDCWD, mode.c_str() + at + 1, mode.starts_with("open-write") ? O_WRONLY : O_RDONLY, 0);
  return 0;
}

void* ExecWorksOn(void*) {
  execl("/proc/self/exe", "works-on", "--target", "works-on", nullptr);
  return nullptr;
}

struct Mode {
  const char* name;
  std::function<int()> run;
};

int Spin() {
  timespec now;
  do {
    for (int i = 0; i < 1000; ++i) snap_sink = i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec == 0 && now.tv_nsec < 100'000'000);
  return 0;
}

}  // namespace

int RunTarget(const std::string& mode) {
  const Mode modes[] = {
      {"works", Works},
      {"seeks", Seeks},
      {"forks", Forks},
      {"spin", Spin},
      {"handled", Handled},
      {"decide", [] { for (int i = 0; i < 400; ++i) { snap_sink = 4; snap_sink = snap_decide("12a4-7"); usleep(3000); } return 0; }},
      {"decide-on", [] { alarm(120); while (true) { snap_sink = 4; snap_sink = snap_decide("12a4-7"); usleep(3000); } return 0; }},
#if defined(__x86_64__)
      {"five-bytes", [] { return snap_five_bytes() == 0x12345678 ? 0 : 1; }},
      {"vector", [] { return snap_vector() == -1 ? 0 : 1; }},
#endif
      {"works-on", [] { alarm(120); while (true) { Works(); usleep(3000); } return 0; }},
      {"exec-works-on", [] { char c; if (read(0, &c, 1) == 1) ExecWorksOn(nullptr); return 1; }},
      {"thread-exec-works-on", [] { char c; if (read(0, &c, 1) == 1) InThread(ExecWorksOn); return 1; }},
      {"linger", Linger},
      {"hello", Hello},
      {"eat", Eat},
      {"globs", [] { snap_multi_a(); snap_multi_b(); snap_multi_c(); snap_multi_a(); return 0; }},
      {"alias", [] { return snap_wrk(3, "x"); }},
      {"inlined", [] { return snap_inlined(snap_sink); }},
      {"sleeps", [] { snap_sleep(1); snap_sleep(30); snap_sleep(1); return 0; }},
      {"watch", [] { for (int i = 0; i < 5; ++i) snap_watched = i; return 0; }},
      {"library", [] { char text[64] = {}; snprintf(text, sizeof(text), "%d", snap_sink); for (int i = 0; i < 3; ++i) snap_sink = static_cast<int>(strlen(text)); return 0; }},
      {"wait", [] { char c; return read(0, &c, 1) < 0; }},
      {"denied", [] { return access("/proc/1/no/such/file", R_OK) == 0; }},
      {"segv", [] { snap_fault(kNowhere); return 0; }},
      {"abort", [] { snap_abort(); return 0; }},
      {"overflow", [] { return snap_overflow(0); }},
      {"thread-overflow", [] { InThread(OverflowThread); return 0; }},
      {"altstack-overflow", [] { UseAlternateStack(); Handle(SIGUSR1, OverflowInHandler, SA_ONSTACK); raise(SIGUSR1); return 0; }},
      {"jump-to-0", [] { snap_jump(nullptr); return 0; }},
      {"blocked", [] { BlockSegv(); snap_fault(kNowhere); return 0; }},
      {"ignored", [] { Handle(SIGSEGV, SIG_IGN, 0); snap_fault(kNowhere); return 0; }},
      {"nested", [] { Handle(SIGSEGV, FaultInHandler, 0); snap_fault(kNowhere); return 0; }},
      {"sent", KilledByAnother},
      {"thread", [] { InThread(FaultThread); return 0; }},
      {"handled-faults", HandledFaults},
  };
  for (const Mode& known : modes) {
    if (mode == known.name) return known.run();
  }
  if (mode.starts_with("open")) return Open(mode);
  if (mode.starts_with("forks=")) return ForkStorm(std::stoi(mode.substr(6)));
  if (mode.starts_with("threads=")) return ThreadStorm(std::stoi(mode.substr(8)));
  if (mode.starts_with("groups=")) return GroupStorm(mode);
  fprintf(stderr, "unknown mode %s\n", mode.c_str());
  return 99;
}

}  // namespace brink::snap_tests
