// Makes late wake-ups of one known cause and says when: `latency_inject KIND COUNT CPU FILE` writes "start end" lines
// (CLOCK_MONOTONIC, ns), one for each. Kinds: busy softirq irqs-off stopped quota faults reclaim mutex pi-mutex; loop (until killed).
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

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/latency/inject_truth.h"
#include "latency_burn.skel.h"

namespace brink::latency {
namespace {

constexpr int64_t kSpikeNs = 5 * kMs;

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

Stretch Burn(int64_t ns) {
  Steps steps;
  int64_t start = Now(), now = start;
  while (now < start + ns) steps.See(now = Now());
  return {start, now, steps.stolen()};
}

void Busy(int count, int cpu, const Log& log) {
  // In this order: the CPU may be another real-time loop's.
  Fifo(90);
  Pin(cpu);
  Repeat(count, cpu, log, {}, {}, [] { return Burn(kSpikeNs); });
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
  // Above ordinary work, below the measuring thread: the packet is sent when it is meant to be.
  Fifo(10);
  Pin(cpu);
  auto* burnt = skeleton->bss;
  // The softirq's time is not always this thread's: the program in it says itself what it was.
  Repeat(count, cpu, log, {.holds_cpu = false}, {}, [&]() -> Stretch {
    burnt->burn_end = 0;
    if (::sendto(sender, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) != 1) Fail("sendto");
    auto end = [&] { return static_cast<int64_t>(__atomic_load_n(&burnt->burn_end, __ATOMIC_ACQUIRE)); };
    for (int i = 0; i < 1000 && !end(); ++i) SleepNs(kMs);
    if (static_cast<int>(burnt->burn_cpu) != cpu) return {};
    return {static_cast<int64_t>(burnt->burn_start), end(), static_cast<int64_t>(burnt->burn_stolen)};
  });
  latency_burn_bpf__destroy(skeleton);
}

// The guests' test module keeps interrupts off on the writer's CPU, and says from when to when they were: off is off,
// whether or not the host ran the guest meanwhile, so that neither its load nor the emulation's speed is any matter.
void InterruptsOff(int count, int cpu, const Log& log, int64_t length_ns) {
  Pin(cpu);
  int fd = ::open("/sys/module/brink_lbr/parameters/irqs_off", O_RDWR);
  if (fd < 0) Fail("irqs_off of the test module");
  const std::string ns = std::to_string(length_ns);
  for (int i = 0; i < count; ++i) {
    SleepNs(20 * kMs);
    if (::pwrite(fd, ns.data(), ns.size(), 0) < 0) Fail("irqs_off");
    char text[64] = {};
    long start = 0, end = 0;
    if (::pread(fd, text, sizeof text - 1, 0) <= 0 || std::sscanf(text, "%ld %ld", &start, &end) != 2) Fail("irqs_off, read");
    log.Add(start, end);
    SleepNs(20 * kMs);
  }
}

// The largest step of a clock that is read without pause on one CPU, above all ordinary work.
class Gap {
 public:
  // Not copied: a thread of the other CPU reads `end_it`.
  explicit Gap(int cpu) : cpu_(cpu) {}
  // Until the flag is set, or a step of `wanted` was seen and `after` has passed; not so long that the kernel holds
  // real-time threads back for others' sake.
  void Look(int64_t wanted, int64_t after, const std::atomic<bool>* end_it) {
    Pin(cpu_);
    Fifo(10);  // below the measuring thread, whose wake-up thereby is part of the step
    start_ = end_ = 0;
    looks_.store(true);
    int64_t begin = Now(), last = begin;
    while (last - begin < 700 * kMs && !(end_it && end_it->load(std::memory_order_relaxed)) && (end_ - start_ < wanted || last - end_ < after)) {
      int64_t now = Now();
      if (now - last > end_ - start_) start_ = last, end_ = now;
      last = now;
    }
    looks_.store(false);
    Fifo(0);
  }
  bool looks() const { return looks_.load(); }
  int64_t start() const { return start_; }
  int64_t end() const { return end_; }

 private:
  int cpu_;
  std::atomic<bool> looks_{false};
  int64_t start_ = 0, end_ = 0;
};

double Ms(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kMs); }

// Asks the runner of the guest (tools/vmlib/guest.py) to stop the machine. The truth is what the clocks of two CPUs say, the
// measured one and another: a stopped machine is a step of both at the same time. A host that is busy keeps one of them
// waiting, or one for longer: such a stretch is made again.
void Stopped(int count, int cpu, const Log& log) {
  const char* path = std::getenv("BRINK_VM_HOST");
  int host = path ? ::open(path, O_WRONLY) : -1;
  if (host < 0) Fail("BRINK_VM_HOST");
  Gap here(cpu), there(cpu ? 0 : 1);
  for (int i = 0, tries = 0; i < count && tries < kTries * count; ++tries) {
    SleepNs(100 * kMs);
    std::atomic<bool> seen{false};
    std::thread other([&] { here.Look(INT64_MAX, 0, &seen); });
    // It starts on this CPU, which is about to be spun on.
    while (!here.looks()) SleepNs(kMs);
    if (::write(host, "HOST STOP 5\n", 12) != 12) Fail(path);
    there.Look(kSpikeNs * 9 / 10, kMs, nullptr);
    seen = true;
    other.join();
    int64_t start = std::max(here.start(), there.start()), end = std::min(here.end(), there.end());
    int64_t either = std::max(here.end(), there.end()) - std::min(here.start(), there.start());
    std::printf("clocks stood still for %.1f and %.1f ms, together for %.1f\n", Ms(here.end() - here.start()), Ms(there.end() - there.start()), Ms(end - start));
    if (end - start < kSpikeNs * 9 / 10 || static_cast<double>(end - start) < static_cast<double>(either) * (1 - kForeign)) continue;
    log.Add(start, end);
    ++i;
  }
}

// How long the group of a cpu.stat was throttled so far, in ns.
int64_t Throttled(const std::string& stat_file) {
  std::FILE* file = std::fopen(stat_file.c_str(), "r");
  if (!file) Fail(stat_file.c_str());
  char line[256];
  long value = 0, ns = 0;
  while (std::fgets(line, sizeof line, file)) {
    if (std::sscanf(line, "throttled_usec %ld", &value) == 1) ns = value * 1000;
    if (std::sscanf(line, "throttled_time %ld", &value) == 1) ns = value;
  }
  std::fclose(file);
  return ns;
}

// Started in a group with a quota, together with the measuring thread: burns until the group is throttled, which is a gap of
// its own clock for the most of which the group was throttled by its cpu.stat. Who else had the CPU made another.
void Quota(int count, int cpu, const Log& log, const std::string& stat_file) {
  Pin(cpu);
  for (int i = 0, tries = 0; i < count && tries < kTries * count; ++tries) {
    SleepNs(100 * kMs);
    int64_t before = Throttled(stat_file), begin = Now(), last = begin, start = 0, end = 0;
    while (!end && last - begin < 2000 * kMs) {
      int64_t now = Now();
      if (now - last > 20 * kMs) {
        int64_t throttled = Throttled(stat_file);
        if (static_cast<double>(throttled - before) >= static_cast<double>(now - last) * (1 - kForeign)) start = last, end = now;
        before = throttled;
        now = Now();
      }
      last = now;
    }
    if (!end) continue;
    log.Add(start, end);
    ++i;
  }
}

void Faults(int count, int cpu, const Log& log) {
  Pin(cpu);
  constexpr size_t kSize = 4 << 20;
  auto* memory = static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(memory, kSize, MADV_NOHUGEPAGE);
  Fifo(90);
  Repeat(count, cpu, log, {}, {}, [&]() -> Stretch {
    Steps steps;
    int64_t start = Now(), now = start;
    while (now < start + kSpikeNs) {
      for (size_t at = 0; at < kSize && now < start + kSpikeNs; at += 4096) {
        memory[at] = 1;
        steps.See(now = Now());
      }
      ::madvise(memory, kSize, MADV_DONTNEED);
    }
    return {start, now, steps.stolen()};
  });
}

void WriteTo(int fd, const std::string& text) {
  // Refused where not all could be reclaimed: what was is what counts.
  ssize_t ignored = ::pwrite(fd, text.data(), text.size(), 0);
  (void)ignored;
}

// Started in a memory group: fills it with clean file pages, which it then reclaims itself: by a limit (v1) or a request
// (v2). Not by force_empty, which waits for work of all CPUs.
void Reclaim(int count, int cpu, const Log& log, const std::string& big_file, const std::string& group) {
  Pin(cpu);
  constexpr size_t kFile = 96 << 20;
  int fd = ::open(big_file.c_str(), O_RDWR | O_CREAT, 0600);
  static char block[1 << 20];
  for (size_t at = 0; at < kFile; at += sizeof block) {
    if (::pwrite(fd, block, sizeof block, static_cast<off_t>(at)) != sizeof block) Fail("file");
  }
  ::fsync(fd);
  std::string v2 = group + "/memory.reclaim", v1 = group + "/memory.limit_in_bytes";
  bool is_v2 = ::access(v2.c_str(), W_OK) == 0;
  int reclaim = ::open((is_v2 ? v2 : v1).c_str(), O_WRONLY);
  if (reclaim < 0) Fail("memory group");
  auto prepare = [&] {
    Fifo(0);
    if (!is_v2) WriteTo(reclaim, "-1");
    for (size_t at = 0; at < kFile; at += sizeof block) {
      if (::pread(fd, block, sizeof block, static_cast<off_t>(at)) < 0) Fail("read");
    }
    Fifo(90);
  };
  Repeat(count, cpu, log, {.at_least = kMs * 6 / 10}, prepare, [&]() -> Stretch {
    int64_t start = Now();
    WriteTo(reclaim, is_v2 ? "32M" : "48M");
    return {start, Now(), 0};
  });
}

// What the holder of a mutex, its waiter and the one who stops the holder share.
struct Mutex {
  pthread_mutex_t mutex;
  std::atomic<int> held{0}, go{0}, waiting{0};
};

template <typename Body>
pid_t Fork(const char* name, int cpu, int priority, const Body& body) {
  pid_t child = ::fork();
  if (child) return child;
  ::prctl(PR_SET_NAME, name);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Pin(cpu);
  Fifo(priority);
  while (true) body();
}

// 'S' asleep, 'T' stopped, ...; waits for it, for two seconds.
bool WaitForState(pid_t pid, char wanted) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  for (int64_t end = Now() + 2000 * kMs; Now() < end; SleepNs(kMs / 20)) {
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (!file) return false;
    char state = 0;
    int read = std::fscanf(file, "%*d (%*[^)]) %c", &state);
    std::fclose(file);
    if (read == 1 && state == wanted) return true;
  }
  return false;
}

// One wait for the stopped holder; one of which it was not stopped for most is not logged.
bool StopHolder(Mutex* shared, pid_t holder, pid_t waiter, const Log& log) {
  shared->go = 1;
  while (shared->waiting.load() != 1) SleepNs(kMs / 10);
  // From here it sleeps for the mutex only.
  bool good = WaitForState(waiter, 'S');
  int64_t start = Now();
  ::kill(holder, SIGSTOP);
  good &= WaitForState(holder, 'T');
  int64_t stopped = Now();
  shared->held = 2;  // the first thing that the holder sees when it goes on
  SleepNs(kSpikeNs);
  int64_t length = Now() - stopped;
  ::kill(holder, SIGCONT);
  while (shared->waiting.load() != 2) SleepNs(kMs / 10);
  int64_t end = Now();
  shared->waiting = 0;
  SleepNs(5 * kMs);
  if (!good || static_cast<double>(length) < static_cast<double>(end - start) * (1 - kForeign)) return false;
  log.Add(start, end);
  return true;
}

// The holder of a mutex is stopped for 5 ms while a thread named "waiter" waits for it. Parent: stops and goes on.
void HeldMutex(int count, int cpu, const Log& log, bool inherit) {
  auto* shared = static_cast<Mutex*>(::mmap(nullptr, sizeof(Mutex), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  new (shared) Mutex();
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (inherit) ::pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  ::pthread_mutex_init(&shared->mutex, &attributes);
  pid_t holder = Fork("holder", cpu, 60, [shared] {
    while (!shared->go.load()) SleepNs(kMs / 10);
    shared->go = 0;
    ::pthread_mutex_lock(&shared->mutex);
    shared->held = 1;
    while (shared->held.load() == 1) SleepNs(kMs / 10);
    ::pthread_mutex_unlock(&shared->mutex);
  });
  pid_t waiter = Fork("waiter", cpu, 50, [shared] {
    while (shared->held.load() != 1) SleepNs(kMs / 10);
    shared->waiting = 1;
    ::pthread_mutex_lock(&shared->mutex);
    ::pthread_mutex_unlock(&shared->mutex);
    shared->waiting = 2;
    while (shared->waiting.load()) SleepNs(kMs / 10);
  });
  std::printf("waiter %d holder %d\n", waiter, holder);
  std::fflush(stdout);
  std::getchar();  // until the observer has attached
  Fifo(70);
  for (int i = 0, tries = 0; i < count && tries < kTries * count; ++tries) i += StopHolder(shared, holder, waiter, log);
  for (pid_t child : {holder, waiter}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace

// Returns the exit status.
int Inject(const std::string& kind, int count, int cpu, const Log& log, char** more, int extra) {
  if (kind == "loop") {
    Pin(cpu);
    // It shall have the CPU most of the time, whatever else runs.
    if (::setpriority(PRIO_PROCESS, 0, -20) != 0) Fail("setpriority");
    std::puts("looping");
    std::fflush(stdout);
    RegisterLoop();
  }
  if (kind == "busy") Busy(count, cpu, log);
  else if (kind == "softirq") Softirq(count, cpu, log);
  else if (kind == "quota" && extra == 1) Quota(count, cpu, log, more[0]);
  else if (kind == "irqs-off" && extra == 1) InterruptsOff(count, cpu, log, std::atoi(more[0]) * kMs);
  else if (kind == "stopped") Stopped(count, cpu, log);
  else if (kind == "faults") Faults(count, cpu, log);
  else if (kind == "reclaim" && extra == 2) Reclaim(count, cpu, log, more[0], more[1]);
  else if (kind == "mutex" || kind == "pi-mutex") HeldMutex(count, cpu, log, kind == "pi-mutex");
  else return 2;
  return 0;
}

}  // namespace brink::latency

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  brink::latency::Log log{std::fopen(argv[4], "w")};
  if (!log.file) brink::latency::Fail(argv[4]);
  return brink::latency::Inject(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), log, argv + 5, argc - 5);
}
