// What an injected stretch of time truly was. The truth must not depend on the machine: a stretch during which the injector
// did not have the CPU, or the hypervisor did, is none of its kind and is made again.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

namespace brink::latency {

inline constexpr int64_t kMs = 1'000'000;
// A clock that is read without pause moves in small steps: larger ones are not this program's.
inline constexpr int64_t kStolenStep = 200'000;
// How much of a stretch may have been somebody else's.
inline constexpr double kForeign = 0.2;
// As many tries for each stretch that is wanted: a machine that lets so few through makes no truth.
inline constexpr int kTries = 4;

inline int64_t NanosecondsOf(clockid_t clock) {
  timespec t;
  ::clock_gettime(clock, &t);
  return t.tv_sec * 1000 * kMs + t.tv_nsec;
}

inline int64_t Now() { return NanosecondsOf(CLOCK_MONOTONIC); }

inline void SleepNs(int64_t ns) {
  timespec t = {ns / (1000 * kMs), ns % (1000 * kMs)};
  ::nanosleep(&t, nullptr);
}

[[noreturn]] inline void Fail(const char* what) {
  std::perror(what);
  std::exit(77);
}

// Stolen ticks of one CPU since boot; 0 where the kernel does not count them.
inline int64_t StolenTicks(int cpu) {
  std::FILE* file = std::fopen("/proc/stat", "re");
  if (!file) Fail("/proc/stat");
  char line[512];
  long long stolen = 0;
  while (std::fgets(line, sizeof line, file)) {
    int number = -1;
    long long ticks = 0;
    if (std::sscanf(line, "cpu%d %*d %*d %*d %*d %*d %*d %*d %lld", &number, &ticks) == 2 && number == cpu) stolen = ticks;
  }
  std::fclose(file);
  return stolen;
}

// Steps of a clock that is read all the time.
class Steps {
 public:
  void See(int64_t now) {
    if (now - last_ > kStolenStep) stolen_ += now - last_;
    last_ = now;
  }
  int64_t stolen() const { return stolen_; }

 private:
  int64_t last_ = Now(), stolen_ = 0;
};

struct Stretch {
  int64_t start = 0, end = 0;
  // Of it, by what the maker knows: steps of its clock. What it cannot know stays 0.
  int64_t stolen = 0;
};

struct Log {
  std::FILE* file;
  void Add(int64_t start, int64_t end) const {
    std::fprintf(file, "%ld %ld\n", static_cast<long>(start), static_cast<long>(end));
    std::fflush(file);
  }
};

// What a kind of injection promises.
struct Promise {
  bool holds_cpu = true;       // the calling thread has the CPU all the time
  int64_t at_least = 2 * kMs;  // shorter ones are of no use
};

// Makes `count` stretches that kept the promise, and logs them; fewer where the machine lets too few through.
inline void Repeat(int count, int cpu, const Log& log, const Promise& promise, const std::function<void()>& prepare, const std::function<Stretch()>& make) {
  for (int i = 0, tries = 0; i < count && tries < kTries * count; ++tries) {
    if (prepare) prepare();
    int64_t stolen_before = StolenTicks(cpu);
    SleepNs(20 * kMs);
    int64_t cpu_before = NanosecondsOf(CLOCK_THREAD_CPUTIME_ID);
    Stretch stretch = make();
    int64_t had = NanosecondsOf(CLOCK_THREAD_CPUTIME_ID) - cpu_before, length = stretch.end - stretch.start;
    // The kernel counts stolen time at its ticks: the one behind the stretch is waited for.
    SleepNs(20 * kMs);
    auto most = static_cast<double>(length) * (1 - kForeign);
    bool kept = length >= promise.at_least && static_cast<double>(length - stretch.stolen) >= most;
    if (promise.holds_cpu && static_cast<double>(had) < most) kept = false;
    if (!kept || StolenTicks(cpu) != stolen_before) continue;
    log.Add(stretch.start, stretch.end);
    ++i;
  }
}

}  // namespace brink::latency
