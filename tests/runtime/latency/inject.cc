// Makes late wake-ups of one known cause and says when: `latency_inject KIND COUNT CPU FILE` writes "start end" lines
// (CLOCK_MONOTONIC, ns), one for each. Kinds: busy softirq irqs-off stopped quota faults reclaim mutex pi-mutex; loop (until killed).
// A stretch of which the hypervisor took much is none of that kind, and is made again.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>

#include "latency_burn.skel.h"

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSpikeNs = 5 * kMs;

int64_t Now() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 * kMs + t.tv_nsec;
}

void SleepNs(int64_t ns) {
  timespec t = {ns / (1000 * kMs), ns % (1000 * kMs)};
  ::nanosleep(&t, nullptr);
}

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(77);
}

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) Fail("sched_setaffinity");
}

void Fifo(int priority) {
  sched_param param = {.sched_priority = priority};
  if (::sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &param) != 0) Fail("sched_setscheduler");
}

// A clock that is read without pause moves in small steps: larger ones are not this program's.
constexpr int64_t kStolenStep = 200'000;

// How much of it was stolen.
int64_t Burn(int64_t ns) {
  int64_t last = Now(), end = last + ns, stolen = 0;
  while (last < end) {
    int64_t now = Now();
    if (now - last > kStolenStep) stolen += now - last;
    last = now;
  }
  return stolen;
}

struct Log {
  std::FILE* file;
  void Add(int64_t start, int64_t end) const {
    std::fprintf(file, "%ld %ld\n", static_cast<long>(start), static_cast<long>(end));
    std::fflush(file);
  }
};

int64_t OwnCpuTime() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000 * kMs + t.tv_nsec;
}

// A `spike` that says no is none, and what took less CPU time than `at_least` (it may have slept in between) neither.
void Repeat(int count, const Log& log, const std::function<void()>& prepare, const std::function<bool()>& spike, int64_t at_least = 0) {
  for (int i = 0, tries = 0; i < count && tries < 20 * count; ++tries) {
    if (prepare) prepare();
    SleepNs(30 * kMs);
    int64_t start = Now(), cpu_before = OwnCpuTime();
    bool good = spike();
    int64_t end = Now();
    if (!good || OwnCpuTime() - cpu_before < at_least) continue;
    log.Add(start, end);
    ++i;
  }
}

void Busy(int count, int cpu, const Log& log) {
  Pin(cpu);
  Fifo(90);
  Repeat(count, log, {}, [] { return Burn(kSpikeNs) < kSpikeNs / 5; });
}

// Branches of registers only, for ever.
[[gnu::noinline]] void RegisterLoop() {
  uint64_t value = 1;
  while (true) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    if (value >> 63) value ^= 0x55;
    asm volatile("" : "+r"(value));
  }
}

void Softirq(int count, int cpu, const Log& log) {
  latency_burn_bpf* skeleton = latency_burn_bpf__open_and_load();
  if (!skeleton) Fail("socket filter");
  skeleton->bss->burn_ns = static_cast<uint64_t>(kSpikeNs);
  int receiver = ::socket(AF_INET, SOCK_DGRAM, 0), sender = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(receiver, reinterpret_cast<sockaddr*>(&address), length) != 0) Fail("bind");
  ::getsockname(receiver, reinterpret_cast<sockaddr*>(&address), &length);
  int program = bpf_program__fd(skeleton->progs.burn_filter);
  if (::setsockopt(receiver, SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof program) != 0) Fail("SO_ATTACH_BPF");
  Pin(cpu);
  // Above ordinary work, below the measuring thread: the packet is sent when it is meant to be.
  Fifo(10);
  Repeat(count, log, {}, [&] {
    if (::sendto(sender, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) != 1) Fail("sendto");
    return true;
  });
  latency_burn_bpf__destroy(skeleton);
}

// The guests' test module keeps interrupts off on the writer's CPU.
void InterruptsOff(int count, int cpu, const Log& log, int64_t length_ns) {
  Pin(cpu);
  int fd = ::open("/sys/module/brink_lbr/parameters/irqs_off", O_RDWR);
  if (fd < 0) Fail("irqs_off of the test module");
  std::string ns = std::to_string(length_ns);
  Repeat(count, log, {}, [&] {
    if (::pwrite(fd, ns.data(), ns.size(), 0) < 0) Fail("irqs_off");
    char stolen[32] = {};
    if (::pread(fd, stolen, sizeof stolen - 1, 0) <= 0) Fail("irqs_off");
    return std::atoll(stolen) < length_ns / 5;
  });
}

// Asks the runner of the guest (tools/vmlib/guest.py) to stop the machine, and sees its own clock jump. Elsewhere than the
// measured CPU: a late wake-up there within the same time shows that both were stopped.
void Stopped(int count, int cpu, const Log& log) {
  const char* path = std::getenv("BRINK_VM_HOST");
  int host = path ? ::open(path, O_WRONLY) : -1;
  if (host < 0) Fail("BRINK_VM_HOST");
  Pin(cpu ? 0 : 1);
  for (int i = 0; i < count; ++i) {
    SleepNs(50 * kMs);
    if (::write(host, "HOST STOP 5\n", 12) != 12) Fail(path);
    int64_t begin = Now(), last = begin;
    while (last - begin < 2000 * kMs) {
      int64_t now = Now();
      if (now - last >= kSpikeNs * 9 / 10) {
        log.Add(last, now);
        break;
      }
      last = now;
    }
  }
}

int64_t Throttled(const std::string& stat_file) {
  std::FILE* file = std::fopen(stat_file.c_str(), "r");
  if (!file) Fail(stat_file.c_str());
  char line[256];
  int64_t count = -1;
  while (std::fgets(line, sizeof line, file)) std::sscanf(line, "nr_throttled %ld", &count);
  std::fclose(file);
  return count;
}

// Started in a group with a quota, together with the measuring thread: burns until the group is throttled, which it sees
// as a gap of its own clock and in the group's cpu.stat.
void Quota(int count, int cpu, const Log& log, const std::string& stat_file) {
  Pin(cpu);
  for (int i = 0; i < count; ++i) {
    SleepNs(100 * kMs);
    int64_t before = Throttled(stat_file), last = Now(), start = 0, end = 0;
    while (!end) {
      int64_t now = Now();
      if (now - last > 20 * kMs && Throttled(stat_file) > before) start = last, end = now;
      last = now;
    }
    log.Add(start, end);
  }
}

void Faults(int count, int cpu, const Log& log) {
  Pin(cpu);
  constexpr size_t kSize = 4 << 20;
  auto* memory = static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(memory, kSize, MADV_NOHUGEPAGE);
  Fifo(90);
  Repeat(count, log, {}, [&] {
    for (int64_t end = Now() + kSpikeNs; Now() < end;) {
      for (size_t at = 0; at < kSize && Now() < end; at += 4096) memory[at] = 1;
      ::madvise(memory, kSize, MADV_DONTNEED);
    }
    return true;
  });
}

// Started in a memory group: fills it with file pages, then gives them back by direct reclaim in its own context.
void Reclaim(int count, int cpu, const Log& log, const std::string& big_file, const std::string& group) {
  Pin(cpu);
  constexpr size_t kFile = 96 << 20;
  int fd = ::open(big_file.c_str(), O_RDWR | O_CREAT, 0600);
  static char block[1 << 20];
  for (size_t at = 0; at < kFile; at += sizeof block) {
    if (::pwrite(fd, block, sizeof block, static_cast<off_t>(at)) != sizeof block) Fail("file");
  }
  ::fsync(fd);
  std::string v2 = group + "/memory.reclaim", v1 = group + "/memory.force_empty";
  bool is_v2 = ::access(v2.c_str(), W_OK) == 0;
  int reclaim = ::open((is_v2 ? v2 : v1).c_str(), O_WRONLY);
  if (reclaim < 0) Fail("memory group");
  Repeat(count, log,
         [&] {
           for (size_t at = 0; at < kFile; at += sizeof block) {
             if (::pread(fd, block, sizeof block, static_cast<off_t>(at)) < 0) Fail("read");
           }
         },
         [&] {
           Fifo(90);
           ssize_t ignored = ::pwrite(reclaim, is_v2 ? "32M" : "0", is_v2 ? 3 : 1, 0);
           (void)ignored;
           Fifo(0);
           return true;
         },
         kMs * 6 / 10);
}

// The holder of a mutex is stopped for 5 ms while a thread named "waiter" waits for it. Parent: stops and goes on.
void HeldMutex(int count, int cpu, const Log& log, bool inherit) {
  struct Shared {
    pthread_mutex_t mutex;
    std::atomic<int> held{0}, go{0}, waiting{0};
  };
  auto* shared = static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  new (shared) Shared();
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (inherit) ::pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  ::pthread_mutex_init(&shared->mutex, &attributes);
  pid_t holder = ::fork();
  if (holder == 0) {
    ::prctl(PR_SET_NAME, "holder");
    Pin(cpu);
    Fifo(60);
    while (true) {
      while (!shared->go.load()) SleepNs(kMs / 10);
      shared->go = 0;
      ::pthread_mutex_lock(&shared->mutex);
      shared->held = 1;
      while (shared->held.load() == 1) SleepNs(kMs / 10);
      ::pthread_mutex_unlock(&shared->mutex);
    }
  }
  pid_t waiter = ::fork();
  if (waiter == 0) {
    ::prctl(PR_SET_NAME, "waiter");
    Pin(cpu);
    Fifo(50);
    while (true) {
      while (shared->held.load() != 1) SleepNs(kMs / 10);
      shared->waiting = 1;
      ::pthread_mutex_lock(&shared->mutex);
      ::pthread_mutex_unlock(&shared->mutex);
      shared->waiting = 2;
      while (shared->waiting.load()) SleepNs(kMs / 10);
    }
  }
  std::printf("waiter %d holder %d\n", waiter, holder);
  std::fflush(stdout);
  std::getchar();  // until the observer has attached
  Fifo(70);
  for (int i = 0; i < count; ++i) {
    shared->go = 1;
    while (shared->waiting.load() != 1) SleepNs(kMs / 10);
    int64_t start = Now();
    SleepNs(2 * kMs);  // it sleeps in the futex by now
    ::kill(holder, SIGSTOP);
    shared->held = 2;  // the first thing that the holder sees when it goes on
    SleepNs(kSpikeNs);
    ::kill(holder, SIGCONT);
    while (shared->waiting.load() != 2) SleepNs(kMs / 10);
    log.Add(start, Now());
    shared->waiting = 0;
    SleepNs(5 * kMs);
  }
  ::kill(holder, SIGKILL);
  ::kill(waiter, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  ::waitpid(waiter, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  std::string kind = argv[1];
  int count = std::atoi(argv[2]), cpu = std::atoi(argv[3]);
  Log log{std::fopen(argv[4], "w")};
  if (!log.file) Fail(argv[4]);
  if (kind == "loop") {
    Pin(cpu);
    // It shall have the CPU most of the time, whatever else runs.
    if (::setpriority(PRIO_PROCESS, 0, -20) != 0) Fail("setpriority");
    RegisterLoop();
  }
  if (kind == "busy") Busy(count, cpu, log);
  else if (kind == "softirq") Softirq(count, cpu, log);
  else if (kind == "quota" && argc == 6) Quota(count, cpu, log, argv[5]);
  else if (kind == "irqs-off" && argc == 6) InterruptsOff(count, cpu, log, std::atoi(argv[5]) * kMs);
  else if (kind == "stopped") Stopped(count, cpu, log);
  else if (kind == "faults") Faults(count, cpu, log);
  else if (kind == "reclaim" && argc == 7) Reclaim(count, cpu, log, argv[5], argv[6]);
  else if (kind == "mutex" || kind == "pi-mutex") HeldMutex(count, cpu, log, kind == "pi-mutex");
  else return 2;
  return 0;
}
