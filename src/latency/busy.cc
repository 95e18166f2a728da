#include "latency/busy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <absl/strings/str_format.h>

#include "base/signals.h"
#include "base/thread.h"
#include "latency/blame_session.h"
#include "latency/clock.h"
#include "latency/cpu_set.h"
#include "latency/paths.h"
#include "latency/scheduler.h"

namespace brink::latency {
namespace {

// The cheapest clock of the CPU and its length of a tick.
uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<uint64_t>(NowNs(CLOCK_MONOTONIC));
#endif
}

double NsPerTick() {
#if defined(__x86_64__)
  int64_t ns = NowNs(CLOCK_MONOTONIC);
  uint64_t ticks = Ticks();
  while (NowNs(CLOCK_MONOTONIC) - ns < 50'000'000) continue;
  int64_t ns_end = NowNs(CLOCK_MONOTONIC);
  return static_cast<double>(ns_end - ns) / static_cast<double>(Ticks() - ticks);
#else
  return 1;
#endif
}

// The gap that ended the run.
struct Ending {
  std::atomic<bool> stop{false};
  std::atomic<bool> taken{false};
  Break gap;  // of who took it; read after its thread has ended
};

class BusyThread {
 public:
  BusyThread(const BusyOptions& options, int cpu, double ns_per_tick, BlameSession* blame, Ending* ending)
      : options_(options), ns_per_tick_(ns_per_tick), blame_(blame), ending_(ending), from_(options.copied), to_(options.copied) {
    result_.cpu = cpu;
  }
  Status Start() {
    ASSIGN_OR_RETURN(thread_, StartThread("the busy thread of CPU " + std::to_string(result_.cpu), [this] { Body(); }));
    return OkStatus();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string& failed() const { return failed_; }
  ThreadResult TakeResult(int index) {
    result_.index = index;
    result_.cycles = result_.values.total();
    return std::move(result_);
  }

 private:
  void Body() {
    ::pthread_setname_np(::pthread_self(), "brink-busy");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(result_.cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) {
      failed_ = absl::StrFormat("CPU %d cannot be used", result_.cpu);
      return;
    }
    if (options_.priority) {
      Status status = SetScheduler({.policy = Policy::kFifo, .priority = options_.priority});
      if (!status.ok()) result_.refused = Message(status);
      else result_.policy = Policy::kFifo, result_.priority = options_.priority;
    }
    result_.tid = static_cast<pid_t>(::syscall(SYS_gettid));
    if (blame_) Register();
    Loop();
  }

  // The kernel's side counts waits of a thread that was woken once; this one never sleeps.
  void Register() {
    auto index = blame_->bpf().Register(result_.tid);
    if (!index.ok()) return;
    slot_ = &blame_->bpf().slot(*index);
    slot_->waking = slot_->first_in = slot_->last_in = 1;
    slot_->limit = 0;
    __atomic_store_n(&slot_->deadline, 1, __ATOMIC_RELEASE);
  }

  // The loop's own work, between two looks at the clock.
  void Work() {
    if (from_.empty()) return;
    std::memmove(to_.data(), from_.data(), from_.size());
    asm volatile("" : : "r"(to_.data()) : "memory");
  }

  // The least that a turn takes, of so many that one of them was left in peace.
  uint64_t LeastTurn() {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 2000; ++i) {
      uint64_t start = Ticks();
      Work();
      least = std::min(least, Ticks() - start);
    }
    return least;
  }

  void Loop() {
    const auto gap = static_cast<uint64_t>(static_cast<double>(options_.gap_ns) / ns_per_tick_);
    const uint64_t bias = options_.bias ? LeastTurn() : 0;
    const uint64_t least = gap + bias;
    uint64_t last = Ticks(), loops = 0;
    while (!ending_->stop.load(std::memory_order_relaxed)) {
      Work();
      uint64_t now = Ticks();
      ++loops;
      if (now - last >= least) {
        Gap(static_cast<int64_t>(static_cast<double>(now - last - bias) * ns_per_tick_));
        now = Ticks();  // what counting took is ours
      }
      last = now;
    }
    result_.loops = loops;
    result_.counter_mhz = 1000 / ns_per_tick_;
  }

  // Of several loops the first one ends the run.
  void End(int64_t ns) {
    if (ending_->taken.exchange(true)) return;
    if (options_.break_hook) options_.break_hook->Hit(result_.tid, ns / 1000, options_.stop_above_ns / 1000);
    ending_->gap = {result_.tid, ns / 1000};
    ending_->stop = true;
  }

  void Gap(int64_t ns) {
    if (options_.stop_above_ns && ns > options_.stop_above_ns) End(ns);
    result_.values.Add(ns);
    ++gaps_;
    if (!slot_) return;
    brink_lat_slot seen = *slot_;
    uint64_t waited = seen.wait - wait_before_;
    wait_before_ = seen.wait;
    if (ns <= options_.limit_ns) return;
    int64_t end = NowNs(CLOCK_MONOTONIC), start = end - ns;
    seen.waking = static_cast<uint64_t>(start);
    seen.irq = 0;
    seen.wait = waited;
    seen.blocked = 0;
    seen.first_in = waited ? seen.last_in : seen.waking;
    seen.last_in = seen.first_in;
    seen.in_cpu = seen.waking_cpu = static_cast<uint32_t>(result_.cpu);
    blame_->Submit({.seen = seen, .deadline = start, .now = end, .cycle = gaps_, .tid = result_.tid, .policy = result_.policy});
  }

  const BusyOptions& options_;
  double ns_per_tick_;
  BlameSession* blame_;
  Ending* ending_;
  std::vector<char> from_, to_;
  brink_lat_slot* slot_ = nullptr;
  uint64_t wait_before_ = 0, gaps_ = 0;
  ThreadResult result_;
  std::string failed_;
  std::thread thread_;
};

// Until the duration, a signal or a gap that ends the run.
std::string Wait(int64_t duration_ns, RunSignals& signals, BlameSession* blame, const Ending& ending) {
  int64_t end = NowNs(CLOCK_MONOTONIC) + duration_ns;
  while (true) {
    if (ending.stop.load()) return "break";
    if (signals.Wait(10)) return "signal";
    if (blame) blame->Tick();
    if (NowNs(CLOCK_MONOTONIC) >= end) return "duration";
  }
}

}  // namespace

StatusOr<Document> RunBusy(const BusyOptions& options) {
  std::vector<int> cpus = AllowedCpus();
  if (!options.cpus.empty()) {
    ASSIGN_OR_RETURN(cpus, ParseCpuSet(options.cpus, OnlineCpus(), AllowedCpus()));
  }
  std::unique_ptr<BlameSession> blame;
  if (options.blame) {
    ASSIGN_OR_RETURN(blame, BlameSession::Start({.limit_ns = options.limit_ns}));
  }
  RunSignals signals({SIGINT, SIGTERM, SIGHUP});
  RETURN_IF_ERROR(signals.status());
  double ns_per_tick = NsPerTick();
  Ending ending;
  Document document;
  document.kind = "busy";
  Result& result = document.result;
  result.clock = "tsc";
  result.command_line = options.command_line;
  result.start_mono_ns = NowNs(CLOCK_MONOTONIC);
  result.start_wall_ns = NowNs(CLOCK_REALTIME);
  const int64_t cpu_before = NowNs(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<std::unique_ptr<BusyThread>> threads;
  for (int cpu : cpus) threads.push_back(std::make_unique<BusyThread>(options, cpu, ns_per_tick, blame.get(), &ending));
  for (auto& thread : threads) {
    Status started = thread->Start();
    if (started.ok()) continue;
    ending.stop = true;
    for (auto& other : threads) other->Join();
    return started;
  }
  result.ended_by = Wait(options.duration_ns, signals, blame.get(), ending);
  ending.stop = true;
  for (auto& thread : threads) thread->Join();
  result.elapsed_ns = NowNs(CLOCK_MONOTONIC) - result.start_mono_ns;
  result.end_wall_ns = NowNs(CLOCK_REALTIME);
  result.cpu_seconds = static_cast<double>(NowNs(CLOCK_PROCESS_CPUTIME_ID) - cpu_before) / 1e9;
  for (size_t i = 0; i < threads.size(); ++i) {
    if (!threads[i]->failed().empty()) return FailedPrecondition(threads[i]->failed());
    result.threads.push_back(threads[i]->TakeResult(static_cast<int>(i)));
    const ThreadResult& cpu = result.threads.back();
    result.notices.push_back(absl::StrFormat("CPU %d: %.3f %% stolen, %.1f gaps a second", cpu.cpu, cpu.values.sum() * 100 / static_cast<double>(result.elapsed_ns),
                                             static_cast<double>(cpu.cycles) * 1e9 / static_cast<double>(result.elapsed_ns)));
    if (!cpu.refused.empty()) result.notices.push_back(cpu.refused);
  }
  if (ending.taken) result.broke = ending.gap;
  if (blame) {
    blame->Tick();
    document.spikes = blame->TakeReports();
    document.tail_paths = FoldPaths(document.spikes);
    document.path_diff = DiffPaths(document.spikes, {});
    for (std::string& notice : blame->Notices()) result.notices.push_back(std::move(notice));
  }
  return document;
}

}  // namespace brink::latency
