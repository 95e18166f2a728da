#include "latency/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "latency/clock.h"
#include "latency/scheduler.h"

namespace brink::latency {
namespace {

// Not of the real-time signals: those queue, and one that is sent again and again to a thread that does not run fills the
// queue of the whole user.
int KickSignal() { return SIGURG; }

// Where the clock can be set, its distance from CLOCK_MONOTONIC tells a step from lateness.
bool CanBeSet(clockid_t clock) { return clock != CLOCK_MONOTONIC; }

// A thread needs little: where RLIMIT_MEMLOCK is small, eight megabytes of stack for each are too many for -m.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 1 << 20;
#else
constexpr size_t kStackBytes = 256 << 10;
#endif
constexpr size_t kStackTouched = 64 << 10;

[[gnu::noinline]] void TouchStack() {
  volatile char room[kStackTouched];
  for (size_t at = 0; at < sizeof room; at += 4096) room[at] = 0;
}

uint64_t PageFaults() {
  struct rusage usage;
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

constexpr auto kRelaxed = std::memory_order_relaxed;

bool LaterFirst(const WorstSample& a, const WorstSample& b) { return a.value_ns > b.value_ns; }

}  // namespace

void RunState::Stop() {
  if (stop.exchange(true)) return;
  ::eventfd_write(stopped.get(), 1);
}

void InstallKickSignal() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  ::sigaction(KickSignal(), &action, nullptr);  // without SA_RESTART: the sleep must return
}

MeasuringThread::MeasuringThread(const Config& config, const ThreadConfig& own, RunState* state, std::unique_ptr<WakeObserver> observer)
    : config_(config), own_(own), state_(state), observer_(std::move(observer)), ring_(config.verbose ? kVerboseRing : 0) {
  const auto buckets = static_cast<size_t>(config.histogram);
  result_.linear.assign(buckets, 0);
  // Touched here, on the thread's node, and empty.
  result_.overflow_cycles.resize(buckets);
  result_.overflow_values_ns.resize(buckets);
  result_.worst.resize(config.worst + 1);
  result_.overflow_cycles.clear();
  result_.overflow_values_ns.clear();
  result_.worst.clear();
}

MeasuringThread::~MeasuringThread() {
  if (!started_) return;
  state_->Stop();
  while (Kick()) ::usleep(1000);
  Join();
}

Status MeasuringThread::Start() {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  const auto least = static_cast<size_t>(std::max(::sysconf(_SC_THREAD_STACK_MIN), 0L));
  if (int bad = ::pthread_attr_setstacksize(&attributes, least + kStackBytes)) return ErrnoError(bad, "stack of a measuring thread");
  int error = ::pthread_create(&thread_, &attributes, &MeasuringThread::Main, this);
  ::pthread_attr_destroy(&attributes);
  if (error) return ErrnoError(error, "measuring thread " + std::to_string(own_.index) + " cannot be started");
  started_ = true;
  return OkStatus();
}

bool MeasuringThread::Kick() {
  if (!started_ || ended_.load(std::memory_order_acquire)) return false;
  // On a busy machine SCHED_IDLE would not run again soon, to see that it shall end.
  if (config_.policy == Policy::kIdle) {
    ::sched_param none = {};
    ::sched_setscheduler(live_.tid.load(kRelaxed), SCHED_OTHER, &none);
  }
  ::pthread_kill(thread_, KickSignal());
  return true;
}

void MeasuringThread::Join() {
  if (!started_) return;
  ::pthread_join(thread_, nullptr);
  started_ = false;
}

void* MeasuringThread::Main(void* self) {
  auto* thread = static_cast<MeasuringThread*>(self);
  thread->Body();
  if (thread->has_timer_) ::timer_delete(thread->timer_);
  ::sched_param none = {};
  ::sched_setscheduler(0, SCHED_OTHER, &none);
  thread->ended_.store(true, std::memory_order_release);
  return nullptr;
}

void MeasuringThread::SetUp() {
  auto tid = static_cast<pid_t>(::syscall(SYS_gettid));
  ::prctl(PR_SET_NAME, "brink-latency");
  if (own_.cpu >= 0) {
    size_t size = CPU_ALLOC_SIZE(own_.cpu + 1);
    cpu_set_t* set = CPU_ALLOC(own_.cpu + 1);
    CPU_ZERO_S(size, set);
    CPU_SET_S(static_cast<size_t>(own_.cpu), size, set);
    if (::sched_setaffinity(0, size, set) != 0) failed_ = "Could not set CPU affinity to CPU #" + std::to_string(own_.cpu) + ": " + std::strerror(errno);
    CPU_FREE(set);
  }
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  if (config_.sleep == Sleep::kPosixTimer) {
    struct sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event._sigev_un._tid = tid;
    if (::timer_create(config_.clock, &event, &timer_) != 0) failed_ = std::string("timer_create: ") + std::strerror(errno);
    else has_timer_ = true;
  }
  SchedulerRequest request{.policy = config_.policy, .priority = own_.priority};
  request.period_ns = config_.dl_period_ns ? config_.dl_period_ns : own_.interval_ns;
  request.runtime_ns = config_.dl_runtime_ns ? config_.dl_runtime_ns : std::max<int64_t>(request.period_ns / 10, 20'000);
  result_.policy = config_.policy;
  result_.priority = own_.priority;
  if (config_.policy != Policy::kOther) {
    Status set = SetScheduler(request);
    if (!set.ok()) {
      refused_ = Message(set);
      result_.policy = Policy::kOther;
    }
  }
  if (config_.smi && own_.cpu >= 0) {
    auto counter = SmiCounter::Open(config_.msr_root, own_.cpu);
    if (counter.ok()) {
      smi_.emplace(std::move(*counter));
      smi_last_ = smi_->Read();
    } else {
      failed_ = Message(counter.status());
    }
  }
  live_.tid.store(tid, kRelaxed);
}

// The first sample must not pay for code and memory that nobody has touched yet (with -m they are locked when touched):
// goes the ways of a sample that needs no room of others, and forgets what it noted.
void MeasuringThread::Rehearse() {
  if (!failed_.empty()) return;
  TouchStack();
  const int64_t now = NowNs(config_.clock);
  const timespec none = {};
  sigset_t nothing;
  sigemptyset(&nothing);
  switch (config_.sleep) {
    case Sleep::kAbsolute: SleepUntil(now); break;
    case Sleep::kRelative: ::clock_nanosleep(config_.clock, 0, &none, nullptr); break;
    case Sleep::kNanosleep: ::nanosleep(&none, nullptr); break;
    case Sleep::kPosixTimer: ::sigtimedwait(&nothing, nullptr, &none); break;
  }
  if (observer_) observer_->BeforeSleep(NowNs(CLOCK_MONOTONIC));
  NewSmis();
  for (int64_t ns : {int64_t{0}, config_.histogram * 1000}) {
    result_.values.Add(ns);
    result_.corrected.AddCorrected(ns, own_.interval_ns);
    if (config_.histogram) CountLinear(ns);
    KeepWorst(ns, now);
  }
  result_.values.Clear();
  result_.corrected.Clear();
  std::fill(result_.linear.begin(), result_.linear.end(), 0);
  result_.overflow_cycles.clear();
  result_.overflow_values_ns.clear();
  result_.worst.clear();
  result_.overflows = 0;
}

int64_t MeasuringThread::FirstDeadline() {
  int64_t start = NowNs(config_.clock);
  if (config_.aligned || config_.sec_aligned) {
    ::pthread_barrier_wait(&state_->barrier);
    if (own_.index == 0) {
      start = NowNs(config_.clock);
      if (config_.sec_aligned) {
        // Too close to the next second: the one after it.
        start = (start / kNsPerSec + (start % kNsPerSec > 900'000'000 ? 2 : 1)) * kNsPerSec;
      }
      state_->common_start_ns = start;
    }
    ::pthread_barrier_wait(&state_->barrier);
    start = state_->common_start_ns + config_.align_offset_ns * (config_.sec_aligned ? 1 : own_.index);
  }
  start_ns_ = start;
  return start + own_.interval_ns;
}

bool MeasuringThread::SleepUntil(int64_t deadline) {
  int error = 0;
  switch (config_.sleep) {
    case Sleep::kAbsolute: {
      timespec until = ToTimespec(deadline);
      error = ::clock_nanosleep(config_.clock, TIMER_ABSTIME, &until, nullptr);
      break;
    }
    case Sleep::kRelative: {
      timespec length = ToTimespec(own_.interval_ns);
      error = ::clock_nanosleep(config_.clock, 0, &length, nullptr);
      break;
    }
    case Sleep::kNanosleep: {
      timespec length = ToTimespec(own_.interval_ns);
      error = ::nanosleep(&length, nullptr) == 0 ? 0 : errno;
      break;
    }
    case Sleep::kPosixTimer: {
      sigset_t alarm;
      sigemptyset(&alarm);
      sigaddset(&alarm, SIGALRM);
      // In slices: a stop must be seen although SIGALRM may never come again.
      timespec slice = {0, 100'000'000};
      do {
        error = ::sigtimedwait(&alarm, nullptr, &slice) == SIGALRM ? 0 : errno;
      } while ((error == EAGAIN || error == EINTR) && !state_->stop.load(kRelaxed));
      overruns_ = error ? 0 : static_cast<uint64_t>(std::max(::timer_getoverrun(timer_), 0));
      break;
    }
  }
  if (error && error != EINTR && !state_->stop.load(kRelaxed)) {
    failed_ = std::string("the sleep failed: ") + std::strerror(error);
    return false;
  }
  return error == 0;
}

void MeasuringThread::Body() {
  {
    NodePreference local(own_.node);
    SetUp();
    Rehearse();
  }
  state_->ready.fetch_add(1);
  if (!failed_.empty()) {
    if (config_.aligned || config_.sec_aligned) {
      ::pthread_barrier_wait(&state_->barrier);
      ::pthread_barrier_wait(&state_->barrier);
    }
    Finish("error");
    return;
  }
  int64_t next = FirstDeadline();
  if (has_timer_) {
    struct itimerspec period = {ToTimespec(own_.interval_ns), ToTimespec(next)};
    if (::timer_settime(timer_, TIMER_ABSTIME, &period, nullptr) != 0) {
      failed_ = std::string("timer_settime: ") + std::strerror(errno);
      Finish("error");
      return;
    }
  }
  const uint64_t faults_before = PageFaults();
  const bool relative = config_.sleep == Sleep::kRelative || config_.sleep == Sleep::kNanosleep;
  const bool settable = CanBeSet(config_.clock);
  while (!state_->stop.load(kRelaxed) && !finished_) {
    if (relative) next = NowNs(config_.clock) + own_.interval_ns;
    int64_t offset = settable ? NowNs(config_.clock) - NowNs(CLOCK_MONOTONIC) : 0;
    if (observer_) observer_->BeforeSleep(next - offset);
    if (!SleepUntil(next)) {
      if (!failed_.empty()) Finish("error");
      continue;
    }
    int64_t now = NowNs(config_.clock);
    int64_t shift = settable ? now - NowNs(CLOCK_MONOTONIC) - offset : 0;
    int64_t smi = NewSmis();
    if (observer_) observer_->AfterWake(now - offset - shift, result_.cycles, static_cast<uint64_t>(smi));
    Sample(next, now, shift, smi);
    if (!relative) {
      next += own_.interval_ns * static_cast<int64_t>(1 + overruns_);
      // A POSIX timer's own count is whole: a period that ended after it was read has its signal still to come.
      uint64_t skipped = config_.sleep == Sleep::kPosixTimer ? 0 : MissedPeriods(next, now, own_.interval_ns);
      next += static_cast<int64_t>(skipped) * own_.interval_ns;
      uint64_t missed = skipped + overruns_;
      // What the set clock skipped was not missed.
      if (missed && (shift > kStepNs || shift < -kStepNs)) missed = 0;
      if (missed && now - start_ns_ >= config_.warm_up_ns) {
        result_.missed += missed;
        live_.missed.store(result_.missed, kRelaxed);
      }
    } else if (now - next >= own_.interval_ns) {
      result_.missed += static_cast<uint64_t>((now - next) / own_.interval_ns);
      live_.missed.store(result_.missed, kRelaxed);
    }
  }
  result_.page_faults = PageFaults() - faults_before;
}

// System management interrupts since the last call.
int64_t MeasuringThread::NewSmis() {
  if (!smi_) return 0;
  uint64_t count = smi_->Read();
  auto gained = static_cast<int64_t>((count - smi_last_) & 0xffffffff);
  smi_last_ = count;
  return gained;
}

void MeasuringThread::Sample(int64_t deadline, int64_t now, int64_t shift, int64_t smi) {
  Lateness late = Judge(deadline, now, shift);
  if (smi_ && now - start_ns_ >= config_.warm_up_ns) {
    result_.smi += static_cast<uint64_t>(smi);
    live_.smi.store(result_.smi, kRelaxed);
  }
  if (late.clock_step) {
    ++result_.clock_steps;
    // The duration is real time, whatever the clock was set to.
    start_ns_ += shift;
    return;
  }
  if (now - start_ns_ < config_.warm_up_ns) return;
  const int64_t ns = late.ns;
  const int64_t units = ns / config_.unit_ns;
  if (ns < 0) ++result_.early;
  if (ns < live_.min_ns.load(kRelaxed)) live_.min_ns.store(ns, kRelaxed);
  if (ns > live_.max_ns.load(kRelaxed)) {
    live_.max_ns.store(ns, kRelaxed);
    state_->new_max.fetch_add(1, kRelaxed);
  }
  result_.sum_units += static_cast<double>(units);
  live_.sum_units.store(result_.sum_units, kRelaxed);
  if (config_.spike && units > config_.spike) Record(units, now);
  if (config_.duration_ns && now - start_ns_ >= config_.duration_ns + config_.warm_up_ns) Finish("duration");
  if (config_.break_value && units > config_.break_value) RaiseBreak(units);
  live_.act_ns.store(ns, kRelaxed);
  if (!ring_.empty()) {
    uint64_t at = ring_end_.load(kRelaxed);
    ring_[at % kVerboseRing].value.store(units, kRelaxed);
    ring_[at % kVerboseRing].smi.store(smi, kRelaxed);
    ring_end_.store(at + 1, std::memory_order_release);
  }
  result_.values.Add(ns);
  result_.corrected.AddCorrected(ns, own_.interval_ns);
  if (config_.histogram) CountLinear(ns);
  KeepWorst(ns, now);
  ++result_.cycles;
  live_.cycles.store(result_.cycles, kRelaxed);
  if (config_.loops && result_.cycles >= config_.loops) Finish("loops");
}

// Buckets are microseconds wide, with -N too.
void MeasuringThread::CountLinear(int64_t ns) {
  const int64_t us = ns / 1000;
  if (us >= 0 && us < config_.histogram) {
    ++result_.linear[static_cast<size_t>(us)];
    return;
  }
  ++result_.overflows;
  if (result_.overflow_cycles.size() < static_cast<size_t>(config_.histogram)) {
    result_.overflow_cycles.push_back(result_.cycles);
    result_.overflow_values_ns.push_back(ns);
  }
}

void MeasuringThread::KeepWorst(int64_t ns, int64_t now) {
  std::vector<WorstSample>& worst = result_.worst;
  if (!config_.worst || (worst.size() == config_.worst && ns <= worst.back().value_ns)) return;
  WorstSample sample{ns, result_.cycles, now};
  worst.insert(std::upper_bound(worst.begin(), worst.end(), sample, LaterFirst), sample);
  if (worst.size() > config_.worst) worst.pop_back();
}

void MeasuringThread::Record(int64_t units, int64_t now) {
  MutexLock lock(state_->spike_lock);
  ++state_->spikes_seen;
  if (state_->spikes.size() < config_.spike_nodes) state_->spikes.push_back({own_.index, {units, now / 1000}});
}

void MeasuringThread::RaiseBreak(int64_t units) {
  MutexLock lock(state_->break_lock);
  if (!state_->broke) {
    if (state_->break_hook) state_->break_hook->Hit(live_.tid.load(kRelaxed), units, config_.break_value);
    state_->broke = Break{live_.tid.load(kRelaxed), units};
    const char* none = nullptr;
    state_->ended_by.compare_exchange_strong(none, "break");
  }
  finished_ = true;
  state_->Stop();
}

void MeasuringThread::Finish(const char* why) {
  if (finished_) return;
  finished_ = true;
  int done = state_->done.fetch_add(1) + 1;
  bool last = done == static_cast<int>(config_.threads.size());
  if (config_.finish == Finish::kFirst || last || *why == 'e') {
    const char* none = nullptr;
    state_->ended_by.compare_exchange_strong(none, why);
    state_->Stop();
  }
}

ThreadResult MeasuringThread::TakeResult() {
  result_.index = own_.index;
  result_.tid = live_.tid.load(kRelaxed);
  result_.cpu = own_.cpu;
  result_.node = own_.node;
  result_.interval_ns = own_.interval_ns;
  result_.act_ns = live_.act_ns.load(kRelaxed);
  result_.refused = refused_;
  result_.lost_verbose = lost_verbose_;
  if (observer_) result_.parts = observer_->TakeParts();
  return std::move(result_);
}

}  // namespace brink::latency
