#include "latency/runner.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/signals.h"
#include "base/strings.h"
#include "latency/clock.h"
#include "latency/cyclic_text.h"
#include "latency/power.h"
#include "latency/side_outputs.h"

extern "C" const char __executable_start, etext;  // the linker's: where this program's code is

namespace brink::latency {
namespace {

constexpr int kTickMs = 10;

void Warn(const std::string& text) { std::fprintf(stderr, "WARN: %s\n", text.c_str()); }

void PinSelf(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  size_t size = CPU_ALLOC_SIZE(cpus.back() + 1);
  cpu_set_t* set = CPU_ALLOC(cpus.back() + 1);
  CPU_ZERO_S(size, set);
  for (int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), size, set);
  if (::sched_setaffinity(0, size, set) != 0) Warn("Couldn't setaffinity in main thread");
  CPU_FREE(set);
}

void PrintResolution(clockid_t clock) {
  timespec reported{};
  ::clock_getres(clock, &reported);
  constexpr int kReads = 1000;
  int64_t least = INT64_MAX, last = NowNs(clock);
  for (int i = 0; i < kReads; ++i) {
    int64_t now = NowNs(clock);
    if (now > last) least = std::min(least, now - last);
    last = now;
  }
  if (least > ToNs(reported)) {
    Warn(absl::StrFormat("reported clock resolution: %d nsec", ToNs(reported)));
    Warn(absl::StrFormat("measured clock resolution approximately: %d nsec", least));
  }
}

// All memory, each page when it is first touched; this program's code at once, the rarely taken ways of a sample among it. What
// a thread writes it touches before it measures (MeasuringThread::Rehearse); the rest of brink is many times that. False:
// refused, see errno.
bool LockMemory() {
  if (::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) {
    ::mlock(&__executable_start, static_cast<size_t>(&etext - &__executable_start));  // without it all is measured the same
    return true;
  }
  return errno == EINVAL && ::mlockall(MCL_CURRENT | MCL_FUTURE) == 0;  // kernels before 4.4
}

class Measurement {
 public:
  Measurement(const Config& config, const RunHooks& hooks) : config_(config), hooks_(hooks) {}
  StatusOr<Result> Run(const std::string& command_line);

 private:
  Status Prepare();
  Status StartThreads();
  void Watch(RunSignals& signals);
  void Frame(bool last);
  void PrintVerbose();
  std::string StatusLines() const;
  void StopThreads();
  bool Live() const;
  Result Collect(const std::string& command_line);

  const Config& config_;
  const RunHooks& hooks_;
  RunState state_;
  PowerHold power_;
  std::vector<std::unique_ptr<MeasuringThread>> threads_;
  SnapshotFile snapshot_;
  uint64_t seen_max_ = 0;
  bool frame_shown_ = false;
  struct Reduced {
    uint64_t cycle = 0;
    int64_t value = 0;
    int64_t smi = 0;
    uint64_t count = 0;
  };
  std::vector<Reduced> reduced_;  // -o
  int64_t start_mono_ = 0, start_wall_ = 0, cpu_before_ns_ = 0;
  std::vector<std::string> notices_;
};

Status Measurement::Prepare() {
  for (const std::string& note : config_.notes) std::fprintf(stderr, "%s\n", note.c_str());
  for (const std::string& warning : config_.warnings) Warn(warning);
  if (config_.unbuffered) std::setvbuf(stdout, nullptr, _IONBF, 0);
  timespec probe;
  if (::clock_gettime(config_.clock, &probe) != 0) return FailedPrecondition("-c: this kernel has no clock " + config_.clock_name);
  if (config_.verbose) std::printf("Max CPUs = %ld\nOnline CPUs = %ld\n", ::sysconf(_SC_NPROCESSORS_CONF), ::sysconf(_SC_NPROCESSORS_ONLN));
  if (config_.mlock && !LockMemory()) {
    Status refused = ErrnoError(errno, "mlockall (raise RLIMIT_MEMLOCK, or run as root)");
    if (config_.format == Format::kCyclictest) return refused;
    Warn(Message(refused) + "; measured with memory that may be paged out");
    notices_.push_back(Message(refused) + "; measured with memory that may be paged out");
  }
  PinSelf(config_.main_cpus);
  std::vector<int> cpus;
  for (const ThreadConfig& thread : config_.threads) cpus.push_back(thread.cpu);
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  if (!cpus.empty() && cpus[0] < 0) {
    cpus.clear();
    for (int cpu = 0; cpu < ::sysconf(_SC_NPROCESSORS_CONF); ++cpu) cpus.push_back(cpu);
  }
  int restored = RestoreIdleStates();
  if (restored) Warn(absl::StrFormat("%d idle states that a killed run had disabled are enabled again", restored));
  PowerHold::Outcome outcome = power_.Take(config_, cpus);
  if (!outcome.warning.empty()) {
    Warn(outcome.warning);
    notices_.push_back(outcome.warning);
  }
  if (!outcome.line.empty() && (config_.format == Format::kCyclictest || config_.format == Format::kText)) std::puts(outcome.line.c_str());
  if (config_.resolution) PrintResolution(config_.clock);
  if (config_.debug) std::fprintf(stderr, "INFO: clock %s (%d)\n", config_.clock_name.c_str(), config_.clock);
  std::fflush(stdout);
  return OkStatus();
}

Status Measurement::StartThreads() {
  size_t count = config_.threads.size();
  ::pthread_barrier_init(&state_.barrier, nullptr, static_cast<unsigned>(count));
  state_.break_hook = hooks_.break_hook;
  state_.stopped.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state_.stopped.valid()) return ErrnoError(errno, "eventfd");
  if (config_.spike) {
    MutexLock lock(state_.spike_lock);
    state_.spikes.resize(config_.spike_nodes);  // touched
    state_.spikes.clear();
  }
  reduced_.resize(count);
  if (config_.verbose && config_.cpus_from_affinity) std::printf("Using %zu cpus.\n", config_.main_cpus.size());
  for (const ThreadConfig& wanted : config_.threads) {
    ThreadConfig own = wanted;
    own.node = own.cpu >= 0 ? NodeOfCpu(own.cpu) : 0;
    NodePreference local(own.node);  // what the thread will touch is allocated on its node
    threads_.push_back(std::make_unique<MeasuringThread>(config_, own, &state_, hooks_.observer ? hooks_.observer(own) : nullptr));
    if (config_.verbose) {
      if (own.cpu >= 0) std::printf("Thread %d using cpu %d.\n", own.index, own.cpu);
      std::printf("Thread %d Interval: %ld\n", own.index, static_cast<long>(own.interval_ns / 1000));
    }
  }
  start_mono_ = NowNs(CLOCK_MONOTONIC);
  start_wall_ = NowNs(CLOCK_REALTIME);
  cpu_before_ns_ = NowNs(CLOCK_PROCESS_CPUTIME_ID);
  for (auto& thread : threads_) {
    Status started = thread->Start();
    // The barrier counts on all of them.
    if (!started.ok() && (config_.aligned || config_.sec_aligned)) std::fprintf(stderr, "brink latency: %s\n", Message(started).c_str()), std::_Exit(1);
    if (!started.ok()) return started;
  }
  while (state_.ready.load() < static_cast<int>(count)) ::usleep(200);
  std::string refused;
  for (auto& thread : threads_) {
    if (!thread->refused().empty()) refused = thread->refused();
  }
  if (!refused.empty() && config_.format == Format::kCyclictest) {
    return PermissionDenied("Unable to change scheduling policy! " + refused);
  }
  if (!refused.empty()) {
    Warn(refused + "; measured as SCHED_OTHER");
    notices_.push_back(refused + "; measured as SCHED_OTHER");
  }
  return OkStatus();
}

bool Measurement::Live() const {
  if (config_.quiet || config_.verbose) return false;
  if (config_.format == Format::kCyclictest) return true;
  return config_.format == Format::kText && ::isatty(STDOUT_FILENO);
}

std::string Measurement::StatusLines() const {
  std::string lines;
  for (const auto& thread : threads_) {
    const LiveStats& live = thread->live();
    StatusView view;
    view.index = thread->own().index;
    view.tid = live.tid.load(std::memory_order_relaxed);
    view.priority = thread->own().priority;
    view.interval_us = thread->own().interval_ns / 1000;
    view.cycles = live.cycles.load(std::memory_order_relaxed);
    int64_t min = live.min_ns.load(std::memory_order_relaxed);
    view.has_min = min != kNoMin;
    view.min = min / config_.unit_ns;
    view.act = live.act_ns.load(std::memory_order_relaxed) / config_.unit_ns;
    view.max = live.max_ns.load(std::memory_order_relaxed) / config_.unit_ns;
    view.avg = view.cycles ? live.sum_units.load(std::memory_order_relaxed) / static_cast<double>(view.cycles) : 0;
    view.with_smi = config_.smi;
    view.smi = live.smi.load(std::memory_order_relaxed);
    lines += StatusLine(view, config_.unit_ns == 1);
  }
  return lines;
}

void Measurement::Frame(bool last) {
  if (!Live()) return;
  if (config_.refresh_on_max && !last) {
    uint64_t now = state_.new_max.load(std::memory_order_relaxed);
    if (now == seen_max_) return;
    seen_max_ = now;
  }
  auto loadavg = ReadFile("/proc/loadavg", 256);
  std::string text = FrameHead(config_.policy, loadavg.ok() ? std::string(Trim(*loadavg)) : "") + StatusLines();
  // The last frame stays on the screen.
  text += last ? "" : CursorUp(threads_.size());
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  frame_shown_ = true;
}

void Measurement::PrintVerbose() {
  if (!config_.verbose) return;
  for (size_t i = 0; i < threads_.size(); ++i) {
    Reduced& reduced = reduced_[i];
    threads_[i]->DrainVerbose([&](uint64_t cycle, int64_t value, int64_t smi) {
      if (!reduced.count || value > reduced.value) reduced = {cycle, value, smi, reduced.count};
      if (++reduced.count < config_.oscope) return;
      std::string line = VerboseLine(static_cast<int>(i), reduced.cycle, reduced.value, config_.smi ? &reduced.smi : nullptr);
      std::fwrite(line.data(), 1, line.size(), stdout);
      reduced = {};
    });
  }
}

void Measurement::Watch(RunSignals& signals) {
  // Where nothing has to be shown or read out meanwhile, the end and signals are all that is waited for.
  const int wait_ms = Live() || config_.verbose || hooks_.tick ? kTickMs : -1;
  while (!state_.stop.load()) {
    pollfd wait[] = {{signals.fd(), POLLIN, 0}, {state_.stopped.get(), POLLIN, 0}};
    int ready = ::poll(wait, 2, wait_ms);
    if (ready < 0 && errno != EINTR) Warn(std::string("poll: ") + std::strerror(errno)), state_.Stop();
    int signal = ready > 0 ? signals.Next() : 0;
    if (signal == SIGUSR1) {
      std::fputs(StatusBlock(StatusLines()).c_str(), stderr);
    } else if (signal == SIGUSR2) {
      Status written = snapshot_.Write(StatusBlock(StatusLines()));
      if (!written.ok()) Warn(Message(written));
    } else if (signal) {
      const char* none = nullptr;
      state_.ended_by.compare_exchange_strong(none, "signal");
      state_.Stop();
      break;
    }
    PrintVerbose();
    Frame(false);
    if (hooks_.tick && !hooks_.tick(false)) {
      const char* none = nullptr;
      state_.ended_by.compare_exchange_strong(none, "threshold");
      state_.Stop();
    }
  }
}

void Measurement::StopThreads() {
  state_.Stop();
  for (auto& thread : threads_) {
    while (thread->Kick()) ::usleep(500);
    thread->Join();
  }
}

Result Measurement::Collect(const std::string& command_line) {
  Result result;
  result.command_line = command_line;
  result.clock = config_.clock_name;
  result.unit_ns = config_.unit_ns;
  result.start_mono_ns = start_mono_;
  result.elapsed_ns = NowNs(CLOCK_MONOTONIC) - start_mono_;
  result.start_wall_ns = start_wall_;
  result.end_wall_ns = NowNs(CLOCK_REALTIME);
  result.cpu_seconds = static_cast<double>(NowNs(CLOCK_PROCESS_CPUTIME_ID) - cpu_before_ns_) / 1e9;
  result.has_smi = config_.smi;
  for (auto& thread : threads_) result.threads.push_back(thread->TakeResult());
  {
    MutexLock lock(state_.spike_lock);
    result.spikes = std::move(state_.spikes);
    result.spikes_seen = state_.spikes_seen;
  }
  {
    MutexLock lock(state_.break_lock);
    result.broke = state_.broke;
  }
  const char* why = state_.ended_by.load();
  result.ended_by = why ? why : "loops";
  result.notices = std::move(notices_);
  return result;
}

StatusOr<Result> Measurement::Run(const std::string& command_line) {
  RunSignals signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  RETURN_IF_ERROR(signals.status());
  // One that comes too late for an answer must not kill us.
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGUSR2, SIG_IGN);
  InstallKickSignal();
  RETURN_IF_ERROR(Prepare());
  RETURN_IF_ERROR(StartThreads());
  std::unique_ptr<FifoServer> fifo;
  if (!config_.fifo.empty()) {
    ASSIGN_OR_RETURN(fifo, FifoServer::Start(config_.fifo, [this] { return StatusLines(); }));
  }
  Watch(signals);
  StopThreads();
  PrintVerbose();
  Frame(true);
  if (hooks_.tick) hooks_.tick(true);
  fifo.reset();
  std::string failed;
  for (auto& thread : threads_) {
    if (!thread->failed().empty()) failed = absl::StrFormat("thread %d: %s", thread->own().index, thread->failed());
  }
  if (!failed.empty()) return FailedPrecondition(failed);
  return Collect(command_line);
}

}  // namespace

StatusOr<Result> RunMeasurement(const Config& config, const RunHooks& hooks, const std::string& command_line) {
  Measurement measurement(config, hooks);
  return measurement.Run(command_line);
}

}  // namespace brink::latency
