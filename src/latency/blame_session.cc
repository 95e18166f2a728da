#include "latency/blame_session.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"
#include "latency/clock.h"
#include "latency/paths.h"

namespace brink::latency {
namespace {

// How far back a report looks for what led to a late wake-up.
constexpr int64_t kBackNs = 15'000'000;

// An ordinary wake-up is captured as late ones are, for comparison. It costs that one some microseconds: the first few
// often, then rarely enough to stay below the percentiles that are shown.
constexpr int64_t kNormalNs = 20'000'000, kNormalLaterNs = 1'000'000'000;
constexpr uint64_t kNormalFirst = 50;

uint64_t Load(const uint64_t& field) { return __atomic_load_n(&field, __ATOMIC_ACQUIRE); }

}  // namespace

// Runs in the measuring thread.
class BlameObserver : public WakeObserver {
 public:
  BlameObserver(BlameSession* session, Policy policy) : session_(session), policy_(policy), parts_(kPartCount) {}
  ~BlameObserver() override = default;

  void BeforeSleep(int64_t deadline) override {
    if (!slot_ && !failed_) Register();
    if (!slot_) return;
    slot_->waking = slot_->first_in = slot_->last_in = slot_->wait = slot_->blocked = slot_->irq = 0;
    slot_->out = slot_->rewaking = 0;
    slot_->woken = 0;
    slot_->switches = slot_->migrations = 0;
    normal_ = deadline - last_normal_ > (normals_ < kNormalFirst ? kNormalNs : kNormalLaterNs);
    slot_->limit = normal_ ? 0 : static_cast<uint64_t>(session_->options_.limit_ns);
    deadline_ = deadline;
    __atomic_store_n(&slot_->deadline, static_cast<uint64_t>(deadline), __ATOMIC_RELEASE);
  }

  void AfterWake(int64_t now, uint64_t cycle, uint64_t smi) override {
    if (!slot_) return;
    brink_lat_slot seen;
    std::memcpy(&seen, slot_, sizeof seen);
    __atomic_store_n(&slot_->deadline, 0, __ATOMIC_RELEASE);
    Parts parts = SplitLateness(deadline_, now, seen);
    const int64_t values[kPartCount] = {parts.timer_late, parts.interrupt, parts.wait, parts.blocked, parts.user};
    for (size_t i = 0; i < kPartCount; ++i) parts_[i].Add(values[i]);
    bool late = now - deadline_ > session_->options_.limit_ns;
    if (normal_) ++normals_, last_normal_ = deadline_;
    if (late || normal_) session_->Submit({.seen = seen, .deadline = deadline_, .now = now, .cycle = cycle, .tid = tid_, .policy = policy_, .smi = smi, .normal = !late});
  }

  std::vector<LogHistogram> TakeParts() override { return std::move(parts_); }

 private:
  void Register() {
    tid_ = static_cast<pid_t>(::syscall(SYS_gettid));
    auto index = session_->bpf_->Register(tid_);
    failed_ = !index.ok();
    if (index.ok()) slot_ = &session_->bpf_->slot(*index);
  }

  BlameSession* session_;
  Policy policy_;
  brink_lat_slot* slot_ = nullptr;
  bool failed_ = false;
  pid_t tid_ = 0;
  int64_t deadline_ = 0, last_normal_ = 0;
  uint64_t normals_ = 0;
  bool normal_ = false;
  std::vector<LogHistogram> parts_;
};

StatusOr<std::unique_ptr<BlameSession>> BlameSession::Start(const BlameOptions& options) {
  std::unique_ptr<BlameSession> session(new BlameSession(options));
  ASSIGN_OR_RETURN(session->bpf_, LatencyBpf::Start({.snapshots = options.snapshots, .beat_ns = options.beat_ns}));
  session->pool_ = std::make_unique<Parcel[]>(kPool);
  for (size_t i = 0; i < kPool; ++i) std::memset(session->pool_[i].log, 0, sizeof session->pool_[i].log);  // touched now, not late
  return session;
}

BlameSession::~BlameSession() = default;

std::unique_ptr<WakeObserver> BlameSession::Observe(const ThreadConfig&, Policy policy) { return std::make_unique<BlameObserver>(this, policy); }

BlameSession::Parcel* BlameSession::Claim() {
  for (size_t i = 0; i < kPool; ++i) {
    int free = 0;
    if (pool_[i].state.compare_exchange_strong(free, 1, std::memory_order_acquire)) return &pool_[i];
  }
  return nullptr;
}

void BlameSession::Submit(const Wake& wake) {
  Parcel* parcel = Claim();
  if (!parcel) {
    if (!wake.normal) dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  parcel->wake = wake;
  const brink_lat_slot& seen = wake.seen;
  const int64_t deadline = wake.deadline;
  // A thread that never slept ran on whatever CPU it is on.
  parcel->cpu = seen.last_in ? seen.in_cpu : static_cast<uint32_t>(std::max(0, ::sched_getcpu()));
  const brink_lat_cpu& log = bpf_->cpu(parcel->cpu);
  parcel->faults = log.faults;
  parcel->reclaim_ns = log.reclaim_ns;
  size_t count = 0;
  for (uint64_t at = Load(log.head); at > 0 && count < BRINK_LAT_EVENTS; --at) {
    const brink_lat_event& event = log.events[(at - 1) % BRINK_LAT_EVENTS];
    if (static_cast<int64_t>(event.end) < deadline - kBackNs && event.end) break;
    std::memcpy(&parcel->log[count++], &event, sizeof event);
  }
  parcel->events = count;
  std::memcpy(&parcel->captures[BRINK_LAT_AT_WAKING], &bpf_->cpu(seen.waking_cpu % bpf_->cpus()).capture[BRINK_LAT_AT_WAKING], sizeof parcel->captures[0]);
  std::memcpy(&parcel->captures[BRINK_LAT_AT_SWITCH], &log.capture[BRINK_LAT_AT_SWITCH], sizeof parcel->captures[0]);
  std::memcpy(&parcel->interrupted, &bpf_->cpu(seen.waking_cpu % bpf_->cpus()).interrupted, sizeof parcel->interrupted);
  // Another measured thread's wake-up may have come since.
  if (parcel->interrupted.when != seen.waking) parcel->interrupted.when = 0;
  parcel->state.store(2, std::memory_order_release);
}

std::vector<brink_lat_event> CopyLog(const brink_lat_cpu& cpu, int64_t from) {
  std::vector<brink_lat_event> events;
  uint64_t head = Load(cpu.head);
  for (uint64_t at = head; at > 0 && events.size() < BRINK_LAT_EVENTS; --at) {
    brink_lat_event event = cpu.events[(at - 1) % BRINK_LAT_EVENTS];
    if (static_cast<int64_t>(event.end) < from) break;
    events.push_back(event);
  }
  uint64_t moved = Load(cpu.head) - head;
  if (events.size() + moved > BRINK_LAT_EVENTS) events.resize(BRINK_LAT_EVENTS > moved ? BRINK_LAT_EVENTS - moved : 0);
  std::reverse(events.begin(), events.end());
  return events;
}

Evidence BlameSession::Complete(const Parcel& parcel) {
  Evidence evidence;
  const Wake& wake = parcel.wake;
  evidence.deadline = wake.deadline;
  evidence.now = wake.now;
  evidence.cycle = wake.cycle;
  evidence.tid = wake.tid;
  evidence.policy = wake.policy;
  evidence.slot = wake.seen;
  evidence.smi = wake.smi;
  evidence.own.cpu = static_cast<int>(parcel.cpu);
  evidence.own.events.assign(parcel.log, parcel.log + parcel.events);
  std::reverse(evidence.own.events.begin(), evidence.own.events.end());
  for (size_t cpu = 0; cpu < bpf_->cpus(); ++cpu) {
    if (cpu == parcel.cpu || !Load(bpf_->cpu(cpu).head)) continue;
    evidence.others.push_back({static_cast<int>(cpu), CopyLog(bpf_->cpu(cpu), wake.deadline - kBackNs)});
  }
  evidence.beat_ns = bpf_->beat_ns();
  auto within = [&](const brink_lat_capture& capture) { return static_cast<int64_t>(capture.when) >= wake.deadline && static_cast<int64_t>(capture.when) <= wake.now; };
  if (within(parcel.captures[BRINK_LAT_AT_WAKING])) evidence.waking = parcel.captures[BRINK_LAT_AT_WAKING];
  if (within(parcel.captures[BRINK_LAT_AT_SWITCH])) evidence.switching = parcel.captures[BRINK_LAT_AT_SWITCH];
  bool fair = wake.policy != Policy::kFifo && wake.policy != Policy::kRr && wake.policy != Policy::kDeadline;
  if (fair) evidence.throttled_periods = throttle_.Since(wake.deadline - kNsPerSec / 50);
  evidence.stolen_ns = steal_.Since(wake.deadline, static_cast<int>(parcel.cpu));
  evidence.faults = parcel.faults;
  evidence.reclaim_ns = static_cast<int64_t>(parcel.reclaim_ns);
  evidence.branches_asked = bpf_->snapshots();
  evidence.branches_missing = bpf_->why_no_snapshots();
  return evidence;
}

// Walks the code of the task that the wake-up found in user mode; names come from the process while it lives.
void BlameSession::WalkInterrupted(const Parcel& parcel, const Names& names, SpikeReport* report) {
  const brink_lat_regs& interrupted = parcel.interrupted;
  if (!interrupted.when || interrupted.tid == static_cast<uint32_t>(parcel.wake.tid)) return;
  OccupierWalk walk = walker_.Walk(interrupted);
  auto comm = ReadFile("/proc/" + std::to_string(interrupted.tid) + "/comm", 64);
  report->walked_of = absl::StrFormat("%s (pid %d)", comm.ok() ? std::string(Trim(*comm)) : "thread " + std::to_string(interrupted.tid), interrupted.tgid);
  report->walked_end = walk.ended;
  auto name = [&](uint64_t address) {
    std::string text = names.user(interrupted.tgid, address);
    return text.empty() ? absl::StrFormat("0x%x", address) : text;
  };
  for (const BranchEntry& branch : walk.branches) report->walked.push_back(name(branch.from) + " -> " + name(branch.to));
}

void BlameSession::Tick() {
  throttle_.Read(NowNs(CLOCK_MONOTONIC));
  bool any = false;
  for (size_t i = 0; i < kPool; ++i) any |= pool_[i].state.load(std::memory_order_relaxed) == 2;
  // /proc/stat is dear on many CPUs: a few times a second, and when something happened.
  if (any || ++ticks_ % 25 == 1) steal_.Read(NowNs(CLOCK_MONOTONIC));
  Names names = names_.names();
  for (size_t i = 0; i < kPool; ++i) {
    Parcel& parcel = pool_[i];
    if (parcel.state.load(std::memory_order_acquire) != 2) continue;
    // Behind the parcel: this thread may have been throttled together with the measured one.
    throttle_.Read(NowNs(CLOCK_MONOTONIC));
    SpikeReport report = Explain(Complete(parcel), names);
    bool normal = parcel.wake.normal;
    if (!normal) WalkInterrupted(parcel, names, &report);
    parcel.state.store(0, std::memory_order_release);
    if (normal) {
      if (std::string path = PathOf(report); !path.empty()) ++normal_paths_[path];
      continue;
    }
    if (options_.on_spike) options_.on_spike(report);
    Keep(std::move(report));
  }
}

void BlameSession::Keep(SpikeReport report) {
  auto later = [](const SpikeReport& a, const SpikeReport& b) { return a.lateness_ns > b.lateness_ns; };
  reports_.insert(std::upper_bound(reports_.begin(), reports_.end(), report, later), std::move(report));
  if (reports_.size() > options_.keep) reports_.pop_back();
}

std::vector<SpikeReport> BlameSession::TakeReports() { return std::move(reports_); }

std::vector<std::string> BlameSession::Notices() const {
  std::vector<std::string> notices;
  if (!bpf_->snapshots()) notices.push_back("no branch snapshots: " + bpf_->why_no_snapshots() + "; stacks instead");
  if (!bpf_->missing().empty()) {
    std::string names;
    for (const std::string& name : bpf_->missing()) names += " " + name;
    notices.push_back("tracepoints that this kernel lacks:" + names);
  }
  if (!bpf_->beat_ns()) notices.push_back("no heartbeat on the CPUs: a stop of the whole machine cannot be told from interrupts that were off");
  if (!names_.kernel_error().empty()) notices.push_back("kernel functions stay numbers: " + names_.kernel_error());
  if (dropped_.load()) notices.push_back(absl::StrFormat("late wake-ups without a report, because they came too fast: %d", dropped_.load()));
  return notices;
}

}  // namespace brink::latency
