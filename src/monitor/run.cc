#include "monitor/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/output_file.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/sync.h"
#include "monitor/act.h"

namespace brink::cfi {
namespace {

constexpr uint64_t kTickNs = 250'000'000, kMetricsNs = 5'000'000'000, kSettledNs = 1'000'000'000;
constexpr int kMetricsMode = 0644;  // whoever scrapes them is another user

// The policy in force, exchanged while windows are judged.
class PolicyHolder {
 public:
  Status Load(const std::vector<std::string>& paths) {
    auto next = std::make_shared<PolicyFile>(PolicyFile::BuiltIn());
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(PolicyFile file, PolicyFile::Load(path));
      next->Append(file);
    }
    MutexLock lock(mutex_);
    policy_ = std::move(next);
    return OkStatus();
  }
  std::shared_ptr<const PolicyFile> Get() const {
    MutexLock lock(mutex_);
    return policy_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const PolicyFile> policy_ ABSL_GUARDED_BY(mutex_);
};

// From alarms to sinks. Writer thread, but for the counts.
class Outlet {
 public:
  Outlet(const RunRequest& request, const PolicyHolder& policy) : request_(request), policy_(policy), actor_({.act = request.act, .snapshots = request.snapshots, .per_minute = request.check.config.per_minute, .spared = Spared(request), .text = request.text}) {}

  Status Open() {
    MutexLock lock(mutex_);
    for (const std::string& word : request_.sinks) {
      ASSIGN_OR_RETURN(auto sink, MakeSink(word, request_.text));
      sinks_.emplace_back(word, std::move(sink));
    }
    return OkStatus();
  }

  Status Take(Alarm&& alarm) {
    MutexLock lock(mutex_);
    if (alarm.severity < request_.least) {
      ++below_;
      return OkStatus();
    }
    ++above_;
    PolicyView view = policy_.Get()->For({.exe = alarm.process.exe, .comm = alarm.comm, .container = alarm.container.name, .pod = alarm.container.pod_name, .uid = alarm.context.uid});
    actor_.Take(view, &alarm);
    if (!book_.Take(&alarm, view.per_minute) && !request_.every) return OkStatus();
    for (auto& [word, sink] : sinks_) {
      Status written = sink->Write(alarm);
      if (!written.ok()) ++sink->failed;
      // Nobody reads standard output any more: the run has no purpose.
      if (!written.ok() && ErrnoOf(written) == EPIPE && word.ends_with(":-")) return written;
    }
    return OkStatus();
  }

  void AddTo(RunReport* report) const {
    MutexLock lock(mutex_);
    report->told = book_.told();
    report->repeated = book_.repeated();
    report->limited = book_.limited();
    report->below = below_;
    report->alarms_at_or_above = above_;
    for (const auto& [word, sink] : sinks_) {
      if (sink->failed) report->sink_failures[word] = sink->failed;
    }
  }

 private:
  static std::vector<std::string> Spared(const RunRequest& request) {
    std::vector<std::string> names;
    for (const char* name : request.check.config.spared) {
      if (name[0]) names.emplace_back(name);
    }
    return names;
  }

  const RunRequest& request_;
  const PolicyHolder& policy_;
  mutable Mutex mutex_;
  Actor actor_ ABSL_GUARDED_BY(mutex_);
  AlarmBook book_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, std::unique_ptr<AlarmSink>>> sinks_ ABSL_GUARDED_BY(mutex_);
  uint64_t below_ ABSL_GUARDED_BY(mutex_) = 0, above_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Monitor {
 public:
  explicit Monitor(RunRequest request) : request_(std::move(request)), outlet_(request_, policy_) {}

  StatusOr<RunReport> Run() {
    RunSignals signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1});
    RETURN_IF_ERROR(signals.status());
    RETURN_IF_ERROR(policy_.Load(request_.policies));
    if (!request_.snapshots.empty() && faccessat(AT_FDCWD, (request_.snapshots + "/.").c_str(), W_OK, AT_EACCESS) != 0) return ErrnoError(errno, "--snapshots " + request_.snapshots);
    RETURN_IF_ERROR(outlet_.Open());
    RETURN_IF_ERROR(Prepare());
    ASSIGN_OR_RETURN(auto made, CheckSource::Create(request_.check));
    source_ = made.get();
    Judge judge({.map = {.locate = {}, .facts = request_.facts}, .hierarchy = ChooseHierarchy(), .runtime_root = request_.runtime_root, .baseline = baseline_ ? &*baseline_ : nullptr,
                 .learn = request_.learn.empty() ? nullptr : &learned_, .depth = request_.check.depth, .jit_allowed = request_.jit_allowed, .confirms = [this](uint32_t nr) { return source_->Confirms(nr); }, .on_file = [this](const std::string& path) { source_->WarmFile(path); }},
                [this] { return policy_.Get(); }, [this](Alarm&& alarm) { return outlet_.Take(std::move(alarm)); });
    judge_ = &judge;
    SessionSpec spec;
    spec.target = request_.target;
    spec.target.run_cgroup = TargetSpec::Group::kOff;  // the checks are filtered by the task set
    spec.buffers = 256;
    spec.buffer_size = 256 << 10;
    if (request_.sample_period_ns) {
      ASSIGN_OR_RETURN(EventSpec event, ParseEvent("cpu-clock"));
      spec.events = {event};
      spec.period = request_.sample_period_ns;
    }
    ASSIGN_OR_RETURN(auto session, Session::Create(spec, std::move(made), judge));
    RunReport report;
    ASSIGN_OR_RETURN(auto not_executed, session->ArmCommand());
    if (not_executed) {
      report.command_status = not_executed->status;
      report.exec_error = not_executed->error;
    } else {
      if (request_.armed) request_.armed(session->notes());
      report.command_decides = WaitForEnd(*session, signals);
    }
    const uint64_t begin = session->armed_ns();
    report.consumer = session->Stop();
    report.elapsed_ns = session->stopped_ns() - begin;
    Finish(*session, &report);
    return report;
  }

 private:
  Status Prepare() {
    if (!request_.baseline.empty()) {
      ASSIGN_OR_RETURN(std::string text, ReadFile(request_.baseline, 1u << 30));
      ASSIGN_OR_RETURN(baseline_, Baseline::Parse(text));
    }
    if (request_.warm && !request_.target.command.empty()) {
      for (std::string& file : FilesOfCommand(request_.target.command[0])) request_.check.warm.push_back(std::move(file));
    }
    request_.check.warm_later = request_.warm && !request_.target.all_cpus;
    for (pid_t pid : request_.target.pids) {
      if (!request_.warm) break;
      for (std::string& file : FilesOfProcess(pid)) request_.check.warm.push_back(std::move(file));
    }
    if (request_.containers.empty() && request_.pods.empty()) return OkStatus();
    ContainerResolver resolver({.runtime_root = request_.runtime_root, .hierarchy = ChooseHierarchy()});
    for (bool pod : {false, true}) {
      for (const std::string& word : pod ? request_.pods : request_.containers) {
        ASSIGN_OR_RETURN(auto folders, resolver.Find(word, pod));
        for (const CgroupFolder& folder : folders) request_.target.cgroups.push_back(folder.path);
      }
    }
    return OkStatus();
  }

  // Whether the command's end was the end of the run.
  bool WaitForEnd(Session& session, RunSignals& signals) {
    const uint64_t end = request_.duration_ns ? session.armed_ns() + request_.duration_ns : UINT64_MAX;
    const int child = session.command() ? session.command()->pidfd() : -1;
    uint64_t next_tick = MonotonicNs() + kTickNs, next_metrics = MonotonicNs();
    while (true) {
      uint64_t now = MonotonicNs(), next = std::min(end, next_tick);
      const int timeout = next <= now ? 0 : static_cast<int>((next - now + 999'999) / 1'000'000);
      pollfd fds[] = {{signals.fd(), POLLIN, 0}, {session.failed_fd(), POLLIN, 0}, {child, POLLIN, 0}};
      if (poll(fds, 3, timeout) < 0 && errno != EINTR) return false;
      while (int signal = fds[0].revents ? signals.Next() : 0) {
        if (signal == SIGHUP) Reload();
        else if (signal == SIGUSR1) next_metrics = 0;
        else return false;
      }
      if (fds[1].revents) return false;
      if (fds[2].revents) return true;
      now = MonotonicNs();
      if (now >= end) return false;
      if (!request_.metrics.empty() && now >= next_metrics) {
        next_metrics = now + kMetricsNs;
        (void)ReplaceFile(request_.metrics, MetricsText(Snapshot()), kMetricsMode);
      }
      if (now < next_tick) continue;
      next_tick = now + kTickNs;
      FollowVetting(now - session.armed_ns());
      session.FollowHotplug();
      if (!session.TargetAlive()) return false;
    }
  }

  // A process is walked once its code has been read whole. Until then its checks say nothing, which is worth a line when it
  // is over: for a second at most one of twenty checks met a process that was not vetted.
  void FollowVetting(uint64_t since_ns) {
    if (vetted_said_ || !request_.say || since_ns < vetting_from_ns_ + kSettledNs) return;
    vetting_from_ns_ = since_ns;
    const CheckCounts counts = source_->counts();
    const uint64_t unvetted = UnvettedChecks(counts), walks = counts[BRINK_CFI_CNT_CHECKS] - counts[BRINK_CFI_CNT_THROTTLED] - counts[BRINK_CFI_CNT_NESTED];
    const bool settled = (unvetted - unvetted_) * 20 <= walks - walks_;
    unvetted_ = unvetted;
    walks_ = walks;
    if (!settled || !unvetted) return;
    vetted_said_ = true;
    request_.say(absl::StrFormat("%d processes vetted after %.1f s; nothing could be said at %d of %d checks until then", source_->lift_stats().vetted, static_cast<double>(since_ns) / 1e9, unvetted, walks));
  }

  void Reload() {
    Status loaded = policy_.Load(request_.policies);
    if (loaded.ok()) {
      ++reloads_;
      std::fprintf(stderr, "brink cfi: policy files read again\n");
    } else {
      ++bad_reloads_;
      std::fprintf(stderr, "brink cfi: the policy stays as it was: %s\n", Message(loaded).c_str());
    }
  }

  RunReport Snapshot() const {
    RunReport report;
    report.judge = judge_->counts();
    report.checks = source_->counts();
    report.hardware = source_->hardware();
    report.lift = source_->lift_stats();
    report.reloads = reloads_;
    report.bad_reloads = bad_reloads_;
    outlet_.AddTo(&report);
    return report;
  }

  void Finish(Session& session, RunReport* report) {
    if (CommandChild* child = session.command(); child && !report->command_status) {
      if (auto status = child->Finish(!report->command_decides); status.ok()) report->command_status = *status;
    }
    RunReport counts = Snapshot();
    counts.command_status = report->command_status;
    counts.exec_error = report->exec_error;
    counts.command_decides = report->command_decides;
    counts.consumer = report->consumer;
    counts.elapsed_ns = report->elapsed_ns;
    *report = std::move(counts);
    report->books = session.books();
    report->stats = source_->Report();
    report->notes = session.notes();
    report->learned_edges = learned_.edges();
    report->learned_paths = learned_.paths();
    report->learned_files = learned_.files();
    if (!request_.learn.empty()) {
      Status written = ReplaceFile(request_.learn, learned_.Text());
      if (!written.ok() && report->consumer.ok()) report->consumer = written;
    }
    if (!request_.metrics.empty()) (void)ReplaceFile(request_.metrics, MetricsText(*report), kMetricsMode);
  }

  RunRequest request_;
  PolicyHolder policy_;
  Outlet outlet_;
  std::optional<Baseline> baseline_;
  Baseline learned_;
  CheckSource* source_ = nullptr;
  const Judge* judge_ = nullptr;
  uint64_t reloads_ = 0, bad_reloads_ = 0;
  bool vetted_said_ = false;
  uint64_t vetting_from_ns_ = 0, unvetted_ = 0, walks_ = 0;
};

}  // namespace

StatusOr<RunReport> RunMonitor(RunRequest request) { return Monitor(std::move(request)).Run(); }

}  // namespace brink::cfi
