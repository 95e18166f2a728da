#include "latency/watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <absl/strings/str_format.h>

#include "base/signals.h"
#include "base/strings.h"
#include "base/units.h"
#include "container/resolver.h"
#include "latency/blame_session.h"
#include "latency/clock.h"
#include "latency/paths.h"

namespace brink::latency {
namespace {

std::string TaskName(const char* comm, uint32_t tgid, uint32_t tid) {
  size_t length = 0;
  while (length < BRINK_LAT_COMM && comm[length]) ++length;
  std::string name = absl::StrFormat("%s (pid %d", EscapeForTerminal(std::string_view(comm, length)), tgid);
  return name + (tid != tgid ? absl::StrFormat(", thread %d)", tid) : ")");
}

const char* OffReason(uint32_t state) {
  if (state & 4) return "stopped (SIGSTOP)";
  if (state & 8) return "stopped by a tracer";
  if (state & 2) return "asleep without signals (a disk, a lock of the kernel)";
  if (state & 1) return "asleep";
  return "waiting for a CPU";
}

// What explaining may take between two looks at the signals.
constexpr int64_t kRoundNs = 200'000'000;

class Watch {
 public:
  explicit Watch(const WatchOptions& options) : options_(options) {}

  StatusOr<Document> Run() {
    RunSignals signals({SIGINT, SIGTERM, SIGHUP});
    RETURN_IF_ERROR(signals.status());
    return Observe(signals);
  }

 private:
  StatusOr<Document> Observe(RunSignals& signals) {
    BpfOptions bpf;
    bpf.watch.watch = options_.all ? BRINK_LAT_WATCH_ALL : BRINK_LAT_WATCH_SET;
    bpf.watch.watch_limit = static_cast<uint64_t>(options_.limit_ns);
    bpf.watch.block_limit = static_cast<uint64_t>(options_.block_limit_ns);
    ASSIGN_OR_RETURN(bpf_, LatencyBpf::Start(bpf));
    RETURN_IF_ERROR(Choose());
    ring_ = ring_buffer__new(bpf_->spike_ring_fd(), &Watch::OnSpike, this, nullptr);
    if (!ring_) return ErrnoError(errno, "ring of the observed wake-ups");
    int64_t start = NowNs(CLOCK_MONOTONIC), wall = NowNs(CLOCK_REALTIME);
    const int64_t cpu = NowNs(CLOCK_PROCESS_CPUTIME_ID);
    std::string why;
    while (why.empty()) {
      struct pollfd wait[2] = {{signals.fd(), POLLIN, 0}, {ring_buffer__epoll_fd(ring_), POLLIN, 0}};
      ::poll(wait, 2, 50);
      round_end_ = NowNs(CLOCK_MONOTONIC) + kRoundNs;
      ring_buffer__consume(ring_);
      int64_t now = NowNs(CLOCK_MONOTONIC);
      if (signals.Next()) why = "signal";
      else if (options_.duration_ns && now - start >= options_.duration_ns) why = "duration";
      else if (!options_.container.empty()) RETURN_IF_ERROR(Choose());
      else if (!options_.all && Gone()) why = "exit";
    }
    round_end_ = NowNs(CLOCK_MONOTONIC) + kRoundNs;
    ring_buffer__consume(ring_);
    ring_buffer__free(ring_);
    Document document;
    document.kind = "watch";
    document.result.ended_by = why;
    document.result.start_mono_ns = start;
    document.result.start_wall_ns = wall;
    document.result.end_wall_ns = NowNs(CLOCK_REALTIME);
    document.result.elapsed_ns = NowNs(CLOCK_MONOTONIC) - start;
    document.result.cpu_seconds = static_cast<double>(NowNs(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    document.result.clock = "monotonic";
    document.result.command_line = options_.command_line;
    RETURN_IF_ERROR(Collect(&document));
    return document;
  }

  Status Add(uint32_t id) {
    uint32_t one = 1;
    if (bpf_map_update_elem(bpf_->watch_set_fd(), &id, &one, BPF_ANY) != 0) return ErrnoError(errno, "observing " + std::to_string(id));
    return OkStatus();
  }

  Status Choose() {
    for (pid_t pid : options_.processes) RETURN_IF_ERROR(Add(static_cast<uint32_t>(pid)));
    for (pid_t tid : options_.threads) RETURN_IF_ERROR(Add(static_cast<uint32_t>(tid)));
    if (options_.container.empty()) return OkStatus();
    if (folders_.empty()) {
      ContainerHierarchy hierarchy = ChooseHierarchy();
      ContainerResolver resolver({.runtime_root = "", .hierarchy = hierarchy});
      ASSIGN_OR_RETURN(auto found, resolver.Find(options_.container, false));
      for (const CgroupFolder& folder : found) folders_.push_back(hierarchy.mount + folder.path);
    }
    for (const std::string& folder : folders_) {
      auto text = ReadFile(folder + "/cgroup.procs", 1 << 20);
      if (!text.ok()) continue;
      for (std::string_view line : Split(Trim(*text), '\n')) {
        auto pid = ParseUint(line);
        if (pid.ok()) RETURN_IF_ERROR(Add(static_cast<uint32_t>(*pid)));
      }
    }
    return OkStatus();
  }

  bool Gone() const {
    auto gone = [](pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; };
    return std::all_of(options_.processes.begin(), options_.processes.end(), gone) && std::all_of(options_.threads.begin(), options_.threads.end(), gone);
  }

  static int OnSpike(void* self, void* data, size_t size) {
    if (size >= sizeof(brink_lat_spike)) static_cast<Watch*>(self)->Take(*static_cast<const brink_lat_spike*>(data));
    return 0;
  }

  void Take(const brink_lat_spike& spike) {
    // Finding names takes time; a machine on which everything is late must not keep us from the end.
    if (NowNs(CLOCK_MONOTONIC) > round_end_) {
      unexplained_ += spike.kind != BRINK_LAT_SPIKE_NORMAL;
      return;
    }
    if (spike.kind == BRINK_LAT_SPIKE_NORMAL) {
      if (std::string path = PathOf(ExplainWake(spike)); !path.empty()) ++normal_paths_[path];
      return;
    }
    SpikeReport report = spike.kind == BRINK_LAT_SPIKE_BLOCKED ? ExplainBlocked(spike) : ExplainWake(spike);
    auto later = [](const SpikeReport& a, const SpikeReport& b) { return a.lateness_ns > b.lateness_ns; };
    reports_.insert(std::upper_bound(reports_.begin(), reports_.end(), report, later), std::move(report));
    if (reports_.size() > options_.keep) reports_.pop_back();
  }

  SpikeReport ExplainWake(const brink_lat_spike& spike) {
    Evidence evidence;
    evidence.deadline = static_cast<int64_t>(spike.begin);
    evidence.now = static_cast<int64_t>(spike.end);
    evidence.tid = static_cast<int32_t>(spike.tid);
    evidence.slot.waking = spike.begin;
    evidence.slot.first_in = evidence.slot.last_in = spike.end;
    evidence.slot.wait = spike.end - spike.begin;
    evidence.own = {static_cast<int>(spike.cpu), CopyLog(bpf_->cpu(spike.cpu), evidence.deadline)};
    for (size_t cpu = 0; cpu < bpf_->cpus(); ++cpu) {
      if (cpu != spike.cpu && bpf_->cpu(cpu).head) evidence.others.push_back({static_cast<int>(cpu), CopyLog(bpf_->cpu(cpu), evidence.deadline)});
    }
    evidence.beat_ns = bpf_->beat_ns();
    const brink_lat_capture& capture = bpf_->cpu(spike.cpu).capture[BRINK_LAT_AT_SWITCH];
    if (static_cast<int64_t>(capture.when) >= evidence.deadline && static_cast<int64_t>(capture.when) <= evidence.now) evidence.switching = capture;
    evidence.branches_asked = bpf_->snapshots();
    evidence.branches_missing = bpf_->why_no_snapshots();
    return Explain(evidence, names_.names());
  }

  Status Collect(Document* document) {
    ASSIGN_OR_RETURN(std::vector<uint64_t> counts, bpf_->WatchHistogram());
    ThreadResult all;
    all.index = 0;
    for (size_t bucket = 0; bucket < counts.size(); ++bucket) all.values.AddBucket(bucket, counts[bucket]);
    all.cycles = all.values.total();
    uint32_t key = 0, next = 0;
    int64_t max = 0;
    bool first = true;
    std::vector<std::pair<brink_lat_watch_stat, uint32_t>> stats;
    while (bpf_map_get_next_key(bpf_->watch_stats_fd(), first ? nullptr : &key, &next) == 0) {
      first = false;
      key = next;
      brink_lat_watch_stat stat;
      if (bpf_map_lookup_elem(bpf_->watch_stats_fd(), &key, &stat) == 0) stats.push_back({stat, key});
    }
    double sum = 0;
    for (const auto& [stat, tid] : stats) max = std::max(max, static_cast<int64_t>(stat.max)), sum += static_cast<double>(stat.sum);
    if (all.cycles && max) all.values.SetExact(all.values.min(), max, sum);
    document->result.threads.push_back(std::move(all));
    std::sort(stats.begin(), stats.end(), [](const auto& a, const auto& b) { return a.first.max > b.first.max; });
    for (size_t i = 0; i < stats.size() && i < 20; ++i) {
      const auto& [stat, tid] = stats[i];
      document->result.notices.push_back(absl::StrFormat("%s: %d wake-ups, mean %.1f us, max %.1f us", TaskName(stat.comm, stat.tgid, tid), stat.count,
                                                         static_cast<double>(stat.sum) / static_cast<double>(std::max<uint64_t>(stat.count, 1)) / 1000, static_cast<double>(stat.max) / 1000));
    }
    document->spikes = std::move(reports_);
    document->tail_paths = FoldPaths(document->spikes);
    document->path_diff = DiffPaths(document->spikes, normal_paths_);
    if (unexplained_) document->result.notices.push_back(absl::StrFormat("late wake-ups without a report, because they came too fast: %d", unexplained_));
    if (uint64_t lost = bpf_->lost_spikes()) document->result.notices.push_back(absl::StrFormat("late wake-ups lost because the ring was full: %d", lost));
    return OkStatus();
  }

  const WatchOptions& options_;
  std::unique_ptr<LatencyBpf> bpf_;
  NameFinder names_;
  struct ring_buffer* ring_ = nullptr;
  std::vector<std::string> folders_;
  std::vector<SpikeReport> reports_;
  std::map<std::string, uint64_t> normal_paths_;
  int64_t round_end_ = 0;
  uint64_t unexplained_ = 0;
};

}  // namespace

SpikeReport ExplainBlocked(const brink_lat_spike& spike) {
  SpikeReport report;
  report.deadline_ns = static_cast<int64_t>(spike.begin);
  report.now_ns = static_cast<int64_t>(spike.end);
  report.lateness_ns = report.now_ns - report.deadline_ns;
  report.tid = static_cast<int32_t>(spike.tid);
  report.cpu = static_cast<int>(spike.cpu);
  report.parts.blocked = report.lateness_ns;
  report.cause = Cause::kLockHolder;
  std::string waiter = TaskName(spike.comm, spike.tgid, spike.tid);
  if (!spike.waker_tgid) {
    report.cause = Cause::kUnknown;
    report.verdict = waiter + " slept in a futex and was woken by an interrupt (a time-out)";
    report.lines = {{"blocked", report.lateness_ns, "asleep in a futex"}};
    return report;
  }
  report.subject = TaskName(spike.waker_comm, spike.waker_tgid, spike.waker_tid);
  int64_t from = std::max(report.deadline_ns, static_cast<int64_t>(spike.waker_off_begin));
  int64_t to = std::min(report.now_ns, static_cast<int64_t>(spike.waker_off_end));
  int64_t off = std::max<int64_t>(0, to - from);
  report.verdict = absl::StrFormat("%s waited in a futex for %s, which held it", waiter, report.subject);
  if (off * 2 > report.lateness_ns) report.verdict += absl::StrFormat(" and was %s for %.1f us of it", OffReason(spike.waker_off_state), static_cast<double>(off) / 1000);
  if (off) report.lines.push_back({"blocked", off, report.subject + " was " + OffReason(spike.waker_off_state)});
  if (report.lateness_ns > off) report.lines.push_back({"blocked", report.lateness_ns - off, report.subject + " before and behind that"});
  return report;
}

StatusOr<Document> RunWatch(const WatchOptions& options) {
  if (!options.all && options.container.empty() && options.processes.empty() && options.threads.empty()) {
    return InvalidArgument("say whom to watch: -p PID, -t TID, --container NAME or -a");
  }
  return Watch(options).Run();
}

}  // namespace brink::latency
