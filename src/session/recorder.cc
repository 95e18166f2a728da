#include "session/recorder.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/signals.h"
#include "session/event_source.h"
#include "session/filter_consumer.h"
#include "session/kernel_stripper.h"

namespace brink {
namespace {

constexpr uint64_t kTickNs = 1'000'000'000;
constexpr uint64_t kGraceNs = 3'000'000'000;  // from SIGTERM to SIGKILL of a command that does not end

CpuTime OwnTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto ns = [](const timeval& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_usec) * 1000; };
  return {ns(usage.ru_utime), ns(usage.ru_stime)};
}

// The loop between Arm and Stop.
class Loop {
 public:
  Loop(const RecordSpec& spec, Session& session, FileConsumer& file, RunSignals* signals, int wake_fd, std::atomic<bool>& size_limit,
       std::atomic<bool>& rotate)
      : spec_(spec), session_(session), file_(file), signals_(signals), wake_fd_(wake_fd), size_limit_(size_limit), rotate_(rotate) {}

  StatusOr<EndReason> Run();

 private:
  uint64_t NextDeadline() const { return std::min({end_, enable_, next_rotate_, next_tick_}); }
  std::optional<EndReason> Timers(uint64_t now);
  std::optional<EndReason> Signals();
  std::optional<EndReason> Steer();

  const RecordSpec& spec_;
  Session& session_;
  FileConsumer& file_;
  RunSignals* signals_;  // null: spec_.control steers instead
  int wake_fd_;
  std::atomic<bool>&size_limit_, &rotate_;
  Status enable_status_;
  bool paused_ = false;
  uint64_t end_ = UINT64_MAX, enable_ = UINT64_MAX, next_rotate_ = UINT64_MAX, next_tick_ = UINT64_MAX;
};

std::optional<EndReason> Loop::Timers(uint64_t now) {
  if (now >= enable_) {
    enable_ = UINT64_MAX;
    enable_status_ = session_.Enable();
  }
  if (now >= next_rotate_) {
    next_rotate_ = now + spec_.rotate_ns;
    session_.Rotate();
  }
  if (now >= next_tick_) {
    next_tick_ = now + kTickNs;
    session_.FollowHotplug();
    if (spec_.progress) spec_.progress(session_, file_);
    if (!session_.TargetAlive()) return EndReason::kTargetEnded;
  }
  if (now >= end_) return EndReason::kDuration;
  return std::nullopt;
}

std::optional<EndReason> Loop::Steer() {
  spec_.control->Clear();
  if (spec_.control->stopped()) return EndReason::kInterrupted;
  const bool pause = spec_.control->paused();
  if (pause == paused_ || enable_ != UINT64_MAX) return std::nullopt;
  paused_ = pause;
  if (pause) session_.Disable();
  else enable_status_ = session_.Enable();
  return std::nullopt;
}

std::optional<EndReason> Loop::Signals() {
  if (!signals_) return Steer();
  while (int signal = signals_->Next()) {
    if (signal == SIGUSR2) {
      session_.Flush();
    } else if (signal == SIGUSR1) {
      session_.Rotate();
    } else {
      return EndReason::kInterrupted;
    }
  }
  return std::nullopt;
}

StatusOr<EndReason> Loop::Run() {
  const uint64_t begin = session_.armed_ns();
  if (spec_.duration_ns) end_ = begin + spec_.duration_ns;
  if (spec_.delay_ns && *spec_.delay_ns != UINT64_MAX) enable_ = begin + *spec_.delay_ns;
  if (spec_.rotate_ns) next_rotate_ = begin + spec_.rotate_ns;
  next_tick_ = begin + kTickNs;
  int child = session_.command() ? session_.command()->pidfd() : -1;
  while (true) {
    pollfd fds[] = {{signals_ ? signals_->fd() : spec_.control->fd(), POLLIN, 0}, {session_.failed_fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}, {child, POLLIN, 0}};
    uint64_t now = MonotonicNs(), next = NextDeadline();
    int timeout = next <= now ? 0 : static_cast<int>(std::min<uint64_t>((next - now + 999'999) / 1'000'000, 60'000));
    if (poll(fds, 4, timeout) < 0 && errno != EINTR) return ErrnoError(errno, "poll");
    if (fds[0].revents) {
      if (auto reason = Signals()) return *reason;
    }
    if (fds[1].revents) return EndReason::kConsumerFailed;
    if (fds[2].revents) {
      uint64_t count;
      [[maybe_unused]] ssize_t n = read(wake_fd_, &count, sizeof(count));
      if (size_limit_) return EndReason::kSizeLimit;
      if (rotate_.exchange(false)) session_.Rotate();
    }
    if (fds[3].revents) return EndReason::kCommandEnded;
    if (auto reason = Timers(MonotonicNs())) return *reason;
    RETURN_IF_ERROR(enable_status_);
  }
}

// What the file is to say about the stacks once filter and model have been at them.
SourceTraits FileTraits(const RecordSpec& spec, const StackSource& source) {
  SourceTraits traits = source.traits();
  if (spec.filter.model && traits.branch_sample_type) {
    traits.contiguous = traits.contiguous && brbe::RecordsEverything(*spec.filter.model);
    traits.branch_sample_type |= PERF_SAMPLE_BRANCH_TYPE_SAVE | PERF_SAMPLE_BRANCH_PRIV_SAVE;
  }
  if (!spec.filter.records) return traits;
  traits.contiguous = false;
  if (traits.branch_sample_type && spec.filter.branch_bits) {
    constexpr uint64_t kStated = filter::kBranchKindMask | filter::kBranchPrivMask;
    traits.branch_sample_type = (traits.branch_sample_type & ~kStated) | (spec.filter.branch_bits & kStated);
  }
  return traits;
}

}  // namespace

Status DescribeEvents(const RecordSpec& spec, StackSource& source, FileSpec* file) {
  SamplingPlan plan = {.events = spec.session.events, .frequency = spec.session.frequency, .period = spec.session.period};
  bool chains = spec.session.chain_user || spec.session.chain_kernel;
  for (const EventSpec& event : spec.session.events) {
    perf_event_attr attr = SamplingAttr(plan, event);
    RETURN_IF_ERROR(source.AmendEvent(&attr));
    file->events.push_back(MakeFileEvent(attr, event.name, FileTraits(spec, source), chains, spec.cgroup_ids));
  }
  return OkStatus();
}

namespace {

// True once the command has ended; false after the grace time, or at once when brink is told a second time to end.
bool EndsInGrace(const CommandChild& child, RunSignals* signals) {
  const uint64_t deadline = MonotonicNs() + kGraceNs;
  while (true) {
    pollfd fds[] = {{child.pidfd(), POLLIN, 0}, {signals ? signals->fd() : -1, POLLIN, 0}};
    uint64_t now = MonotonicNs();
    int ready = poll(fds, 2, now >= deadline ? 0 : static_cast<int>((deadline - now + 999'999) / 1'000'000));
    if (fds[0].revents) return true;
    if (ready == 0) return false;
    while (int signal = signals ? signals->Next() : 0) {
      if (signal != SIGUSR1 && signal != SIGUSR2) return false;
    }
  }
}

// Ends a command that still runs, and reaps it.
void FinishCommand(Session& session, RunSignals* signals, RecordResult* result) {
  CommandChild* child = session.command();
  if (!child || result->command_status) return;
  if (result->reason != EndReason::kCommandEnded && result->reason != EndReason::kConsumerFailed) {
    child->Signal(SIGTERM);
    if (!EndsInGrace(*child, signals)) {
      child->Signal(SIGKILL);
      result->notes.push_back("the command did not end at SIGTERM and was killed");
    }
  }
  auto end = child->Wait();
  if (!end.ok()) return;
  result->command_status = ShellStatus(end->wait_status);
  if (!result->busy && session.target().kind == TargetKind::kCommand) result->busy = end->cpu;
}

void Collect(const RecordSpec& spec, Session& session, FileConsumer& file, RecordResult* result) {
  result->books = session.books();
  result->counters = session.counters();
  result->counts = file.counts();
  result->path = file.path();
  result->bytes = file.bytes();
  result->files = file.files();
  result->disk_was_full = file.disk_was_full();
  result->elapsed_ns = session.stopped_ns() - session.armed_ns();
  result->buffers = session.pool().count();
  result->most_dirty = session.pool().most_dirty();
  const auto& notes = session.notes();
  result->notes.insert(result->notes.begin(), notes.begin(), notes.end());
  result->source_stats = session.source().Report();
  const std::vector<EventSpec>& events = spec.session.events;
  if (!result->busy || events.size() != 1 || !events[0].is_clock() || spec.delay_ns || spec.replay_count) return;
  uint64_t frequency = events[0].frequency ? events[0].frequency : spec.session.frequency;
  uint64_t period = events[0].period ? events[0].period : spec.session.period;
  double period_ns = frequency ? 1e9 / static_cast<double>(frequency) : static_cast<double>(period);
  bool no_kernel = events[0].exclude_kernel || session.source().traits().user_only;
  uint64_t busy = (no_kernel ? 0 : result->busy->system_ns) + (events[0].exclude_user ? 0 : result->busy->user_ns);
  if (period_ns > 0) result->expected = static_cast<double>(busy) / period_ns;
}

}  // namespace

StatusOr<RecordResult> Record(const RecordSpec& given, std::unique_ptr<StackSource> source) {
  RecordSpec spec = given;
  spec.session.enable = !spec.delay_ns && !spec.replay_count;
  spec.session.command_stdout_to_stderr = spec.file.pipe && !spec.open_sink;
  const CpuTime own_before = OwnTime();
  std::optional<RunSignals> signals;
  if (!spec.control) signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  if (signals) RETURN_IF_ERROR(signals->status());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError(errno, "eventfd");
  std::atomic<bool> size_limit{false}, rotate{false};
  auto wake_up = [&](std::atomic<bool>& flag) {
    flag = true;
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(wake.get(), &one, sizeof(one));
  };
  RETURN_IF_ERROR(DescribeEvents(spec, *source, &spec.file));
  ASSIGN_OR_RETURN(std::unique_ptr<FileConsumer> file,
                   FileConsumer::Create(spec.file, {.size_limit = [&] { wake_up(size_limit); }, .rotate = [&] { wake_up(rotate); }}, spec.open_sink));
  auto* replay = dynamic_cast<EventSource*>(source.get());
  if (spec.replay_undrained) replay->FeedAtLoad(spec.replay_count);
  KernelStripper stripper(*file);
  Consumer& writer = spec.strip_kernel ? static_cast<Consumer&>(stripper) : *file;
  ASSIGN_OR_RETURN(std::unique_ptr<FilterConsumer> filter, FilterConsumer::Create(spec.filter, source->traits().filters_in_bpf, writer));
  if (filter) spec.session.filter = filter->bpf_program();
  Consumer& consumer = filter && filter->needed() ? static_cast<Consumer&>(*filter) : writer;
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(spec.session, std::move(source), consumer));

  RecordResult result;
  result.own_start_ns = OwnTime().total() - own_before.total();
  ASSIGN_OR_RETURN(auto not_executed, session->ArmCommand());
  if (not_executed) {
    result.reason = EndReason::kCommandEnded;
    result.command_status = not_executed->status;
    result.exec_error = not_executed->error;
  } else if (spec.replay_count) {
    uint64_t sent = 0;
    if (!spec.replay_undrained) {
      ASSIGN_OR_RETURN(sent, replay->Feed(spec.replay_count, spec.replay_rate));
    }
    if (spec.replayed) spec.replayed(sent);
    result.reason = EndReason::kReplayDone;
  } else {
    if (spec.armed) spec.armed(*session);
    Loop loop(spec, *session, *file, signals ? &*signals : nullptr, wake.get(), size_limit, rotate);
    auto reason = loop.Run();
    if (!reason.ok()) {
      (void)session->Stop();
      result.reason = EndReason::kInterrupted;
      FinishCommand(*session, signals ? &*signals : nullptr, &result);
      return reason.status();
    }
    result.reason = *reason;
  }
  result.consumer = session->Stop();
  if (!result.consumer.ok()) result.reason = EndReason::kConsumerFailed;
  result.busy = session->busy();
  FinishCommand(*session, signals ? &*signals : nullptr, &result);
  Collect(spec, *session, *file, &result);
  if (filter) filter->Report(result.counters, &result.source_stats);
  CpuTime own = OwnTime();
  result.own = {own.user_ns - own_before.user_ns, own.system_ns - own_before.system_ns};
  return result;
}

}  // namespace brink
