#include "latency/blame_session.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include <absl/strings/str_format.h>

#include "latency/clock.h"

namespace brink::latency {
namespace {

// How far back a report looks for what led to a late wake-up.
constexpr int64_t kBackNs = 15'000'000;

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
    slot_->switches = slot_->migrations = 0;
    slot_->limit = static_cast<uint64_t>(session_->options_.limit_ns);
    deadline_ = deadline;
    __atomic_store_n(&slot_->deadline, static_cast<uint64_t>(deadline), __ATOMIC_RELEASE);
  }

  void AfterWake(int64_t now, uint64_t cycle) override {
    if (!slot_) return;
    brink_lat_slot seen;
    std::memcpy(&seen, slot_, sizeof seen);
    __atomic_store_n(&slot_->deadline, 0, __ATOMIC_RELEASE);
    Parts parts = SplitLateness(deadline_, now, seen);
    const int64_t values[kPartCount] = {parts.timer_late, parts.interrupt, parts.wait, parts.blocked, parts.user};
    for (size_t i = 0; i < kPartCount; ++i) parts_[i].Add(values[i]);
    if (now - deadline_ > session_->options_.limit_ns) session_->Submit(seen, deadline_, now, cycle, tid_, policy_);
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
  int64_t deadline_ = 0;
  std::vector<LogHistogram> parts_;
};

StatusOr<std::unique_ptr<BlameSession>> BlameSession::Start(const BlameOptions& options) {
  std::unique_ptr<BlameSession> session(new BlameSession(options));
  ASSIGN_OR_RETURN(session->bpf_, LatencyBpf::Start({.snapshots = options.snapshots}));
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
  dropped_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void BlameSession::Submit(const brink_lat_slot& seen, int64_t deadline, int64_t now, uint64_t cycle, pid_t tid, Policy policy) {
  Parcel* parcel = Claim();
  if (!parcel) return;
  parcel->deadline = deadline;
  parcel->now = now;
  parcel->cycle = cycle;
  parcel->tid = tid;
  parcel->policy = policy;
  parcel->slot = seen;
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
  evidence.deadline = parcel.deadline;
  evidence.now = parcel.now;
  evidence.cycle = parcel.cycle;
  evidence.tid = parcel.tid;
  evidence.policy = parcel.policy;
  evidence.slot = parcel.slot;
  evidence.own.cpu = static_cast<int>(parcel.cpu);
  evidence.own.events.assign(parcel.log, parcel.log + parcel.events);
  std::reverse(evidence.own.events.begin(), evidence.own.events.end());
  for (size_t cpu = 0; cpu < bpf_->cpus(); ++cpu) {
    if (cpu == parcel.cpu || !Load(bpf_->cpu(cpu).head)) continue;
    evidence.others.push_back({static_cast<int>(cpu), CopyLog(bpf_->cpu(cpu), parcel.deadline - kBackNs)});
  }
  evidence.heartbeat = bpf_->heartbeat();
  auto within = [&](const brink_lat_capture& capture) { return static_cast<int64_t>(capture.when) >= parcel.deadline && static_cast<int64_t>(capture.when) <= parcel.now; };
  if (within(parcel.captures[BRINK_LAT_AT_WAKING])) evidence.waking = parcel.captures[BRINK_LAT_AT_WAKING];
  if (within(parcel.captures[BRINK_LAT_AT_SWITCH])) evidence.switching = parcel.captures[BRINK_LAT_AT_SWITCH];
  bool fair = parcel.policy != Policy::kFifo && parcel.policy != Policy::kRr && parcel.policy != Policy::kDeadline;
  if (fair) evidence.throttled_periods = throttle_.Since(parcel.deadline - kNsPerSec / 50);
  evidence.stolen_ns = steal_.Since(parcel.deadline, static_cast<int>(parcel.cpu));
  evidence.faults = parcel.faults;
  evidence.reclaim_ns = static_cast<int64_t>(parcel.reclaim_ns);
  evidence.branches_asked = bpf_->snapshots();
  evidence.branches_missing = bpf_->why_no_snapshots();
  return evidence;
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
    parcel.state.store(0, std::memory_order_release);
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
  if (!bpf_->heartbeat()) notices.push_back("no heartbeat on the CPUs: a stop of the whole machine cannot be told from interrupts that were off");
  if (!names_.kernel_error().empty()) notices.push_back("kernel functions stay numbers: " + names_.kernel_error());
  if (dropped_.load()) notices.push_back(absl::StrFormat("late wake-ups without a report, because they came too fast: %d", dropped_.load()));
  return notices;
}

std::vector<std::string> FoldPaths(const std::vector<SpikeReport>& reports) {
  std::map<std::string, int> paths;
  for (const SpikeReport& report : reports) {
    std::string path;
    if (!report.branches.empty()) {
      for (auto it = report.branches.rbegin(); it != report.branches.rend(); ++it) {
        std::string from = it->substr(0, it->find(" -> "));
        if (path.empty() || path.substr(path.rfind(';') + 1) != from) path += (path.empty() ? "" : ";") + from;
      }
    } else {
      for (auto it = report.user_stack.rbegin(); it != report.user_stack.rend(); ++it) path += (path.empty() ? "" : ";") + *it;
      for (auto it = report.kernel_stack.rbegin(); it != report.kernel_stack.rend(); ++it) path += (path.empty() ? "" : ";") + *it;
    }
    if (path.empty()) continue;
    ++paths[std::string(CauseName(report.cause)) + ";" + (report.subject.empty() ? "?" : report.subject) + ";" + path];
  }
  std::vector<std::pair<int, std::string>> sorted;
  for (auto& [path, count] : paths) sorted.push_back({count, path});
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (auto& [count, path] : sorted) lines.push_back(path + " " + std::to_string(count));
  return lines;
}

}  // namespace brink::latency
