#include "snap/run.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/signals.h"
#include "base/strings.h"
#include "session/file_consumer.h"
#include "snap/group_records.h"

namespace brink::snap {
namespace {

constexpr uint64_t kTickNs = 250'000'000;

bool IsCgroupRecord(const PerfRecordView& view) {
  perf_event_header header = {};
  if (view.record.size() >= sizeof(header)) std::memcpy(&header, view.record.data(), sizeof(header));
  return header.type == PERF_RECORD_CGROUP;
}

// Names captures, prints them and hands them on to the file. Writer thread.
class SnapConsumer : public Consumer {
 public:
  SnapConsumer(SnapSource& source, const RunRequest& request, FileConsumer* file, int wake_fd)
      : source_(source), request_(request), namer_(source, request.snap.runtime_root), file_(file), wake_fd_(wake_fd) {}

  Status OnSample(const SampleView& sample) override {
    if (source_.follows()) return OnFollowed(sample);
    SampleView trimmed = sample;
    trimmed.branches = source_.Trim(sample.head->event, sample.branches);
    if (file_) {
      // The record in the file: what is left of the entries, with the head to match.
      brink_sample head = *sample.head;
      head.nr = static_cast<uint16_t>(trimmed.branches.size());
      SampleView written = trimmed;
      written.head = &head;
      RETURN_IF_ERROR(WriteSample(written));
    }
    if (request_.print) {
      const auto* begin = reinterpret_cast<const std::byte*>(sample.head);
      Wait(sample.head->time_ns, true, {begin, begin + sample.head->header.size});
    }
    captures_.fetch_add(1);
    Wake();
    return waiting_bytes_ > kMostWaiting ? Release(UINT64_MAX) : OkStatus();
  }
  Status OnPerfRecord(const PerfRecordView& record) override {
    if (request_.print) Wait(record.id.time_ns, false, {record.record.begin(), record.record.end()});
    // Ids of another hierarchy than that of the samples.
    if (IsCgroupRecord(record) && !source_.hierarchy().v2()) return OkStatus();
    return file_ ? file_->OnPerfRecord(record) : OkStatus();
  }
  Status OnRound(uint64_t time_ns) override {
    RETURN_IF_ERROR(Release(time_ns));
    return file_ ? file_->OnRound(time_ns) : OkStatus();
  }
  Status OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) override { return file_ ? file_->OnLost(cause, loss, time_ns) : OkStatus(); }
  Settled Settle() override { return file_ ? file_->Settle() : Settled{}; }
  Status Flush() override { return file_ ? file_->Flush() : OkStatus(); }
  Status Finish() override {
    Status released = Release(UINT64_MAX);
    Status finished = file_ ? file_->Finish() : OkStatus();
    return released.ok() ? finished : released;
  }

  uint64_t captures() const { return captures_.load(); }

 private:
  // Captures wait for what follows them, those for the file too.
  Status OnFollowed(const SampleView& sample) {
    const auto* begin = reinterpret_cast<const std::byte*>(sample.head);
    Wait(sample.head->time_ns, true, {begin, begin + sample.head->header.size});
    if (!IsFollowUp(*sample.head)) captures_.fetch_add(1);
    Wake();
    return waiting_bytes_ > kMostWaiting ? Release(UINT64_MAX) : OkStatus();
  }

  // What the walker sent for the capture at `at`.
  std::optional<SampleView> FollowUpOf(const brink_sample& capture, size_t at) const {
    for (size_t i = at; i < waiting_.size() && waiting_[i].time_ns == capture.time_ns; ++i) {
      auto other = waiting_[i].is_sample ? ViewSample(waiting_[i].bytes) : std::nullopt;
      if (other && Follows(*other->head, capture)) return other;
    }
    return std::nullopt;
  }

  Status WriteFollowed(const SampleView& sample, const std::optional<SampleView>& follow) {
    brink_sample head = *sample.head;
    head.source = BRINK_SOURCE_WALK;
    SampleView written = sample;
    if (follow) {
      written.branches = follow->branches;
      head.nr = follow->head->nr;
      head.direction = follow->head->direction;
      head.stop = follow->head->stop;
      head.end_ip = follow->head->end_ip;
      head.steps = follow->head->steps;
      head.walk_ns = follow->head->walk_ns;
    }
    written.head = &head;
    return WriteSample(written);
  }

  // After the name of its group, where no record of the kernel has it.
  Status WriteSample(const SampleView& sample) {
    const brink_sample& head = *sample.head;
    const auto record = source_.hierarchy().v2() ? std::vector<std::byte>{} : groups_.AtFirstSight(head.cgroup_id, namer_.GroupPath(head.cgroup_id));
    if (!record.empty()) RETURN_IF_ERROR(file_->OnPerfRecord({.record = record, .id = {.pid = head.tgid, .tid = head.tid, .time_ns = head.time_ns, .cpu = head.cpu}}));
    return file_->OnSample(sample);
  }

  static constexpr size_t kMostWaiting = 64u << 20;
  // A capture may come out before the mappings that name it: both wait for the end of their round, and go by time.
  struct Waiting {
    uint64_t time_ns = 0;
    bool is_sample = false;
    std::vector<std::byte> bytes;
  };

  void Wait(uint64_t time_ns, bool is_sample, std::vector<std::byte> bytes) {
    waiting_bytes_ += bytes.size();
    waiting_.push_back({time_ns, is_sample, std::move(bytes)});
  }

  Status Release(uint64_t before_ns) {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) { return a.time_ns < b.time_ns; });
    size_t done = 0;
    Status status;
    for (; done < waiting_.size() && waiting_[done].time_ns < before_ns && status.ok(); ++done) {
      Waiting& item = waiting_[done];
      waiting_bytes_ -= item.bytes.size();
      if (item.is_sample) {
        status = Print(item.bytes, done);
      } else {
        namer_.Observe({.record = item.bytes, .id = {}});
      }
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(done));
    return status;
  }

  Status Print(std::span<const std::byte> bytes, size_t at) {
    auto sample = ViewSample(bytes);
    auto view = sample ? ViewSnap(*sample) : std::nullopt;
    if (!view) return OkStatus();
    if (!source_.follows()) {
      sample->branches = source_.Trim(sample->head->event, sample->branches);
      return request_.print(namer_.Name(*sample, *view, request_.lines));
    }
    const std::optional<SampleView> follow = FollowUpOf(*sample->head, at);
    if (file_) RETURN_IF_ERROR(WriteFollowed(*sample, follow));
    if (!request_.print) return OkStatus();
    Capture capture = namer_.Name(*sample, *view, request_.lines);
    namer_.AddFollowUp(follow ? &*follow : nullptr, request_.lines, &capture);
    return request_.print(capture);
  }

  void Wake() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(wake_fd_, &one, sizeof(one));
  }

  SnapSource& source_;
  const RunRequest& request_;
  CaptureNamer namer_;
  FileConsumer* file_;
  GroupRecords groups_;
  int wake_fd_;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  std::atomic<uint64_t> captures_{0};
};

StatusOr<std::unique_ptr<FileConsumer>> OpenOutput(const RunRequest& request, const SnapSource& source) {
  FileSpec file = {.path = request.output, .pipe = request.output == "-"};
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_BPF_OUTPUT;
  attr.sample_period = 1;
  for (const ShownTrigger& shown : source.shown()) file.events.push_back(MakeFileEvent(attr, shown.trigger.text, source.traits(), true, true));
  return FileConsumer::Create(std::move(file), {.size_limit = [] {}, .rotate = [] {}});
}

// All triggers have said all that they will say.
bool AllDone(const RunRequest& request, const SnapConsumer& consumer) {
  return request.snap.count && consumer.captures() >= request.snap.count * request.snap.triggers.size();
}

bool HasManual(const SnapSource& source) {
  const auto& shown = source.shown();
  return std::any_of(shown.begin(), shown.end(), [](const ShownTrigger& trigger) { return trigger.trigger.kind == TriggerKind::kManual; });
}

// A wish for a moment's capture where no trigger is manual is nobody's: no reason to end.
Status FireIfAny(SnapSource& source) { return HasManual(source) ? source.Fire() : OkStatus(); }

// Answers what was sent to the run. False: the end was asked for.
StatusOr<bool> Answer(RunControl* control, RunSignals* signals, SnapSource& source) {
  if (control) {
    control->Clear();
    source.Pause(control->paused());
    if (control->TakeFire()) RETURN_IF_ERROR(FireIfAny(source));
    return !control->stopped();
  }
  while (int signal = signals->Next()) {
    if (signal != SIGUSR1) return false;
    RETURN_IF_ERROR(FireIfAny(source));
  }
  return true;
}

// The terminal whose Enter key fires manual triggers; -1: none. Only where nobody else reads it.
int KeyboardOf(const RunRequest& request, Session& session, const SnapSource& source) {
  return HasManual(source) && !request.control && !session.command() && isatty(STDIN_FILENO) ? STDIN_FILENO : -1;
}

enum class Keyboard { kListen, kLater, kGone };

// Takes what was typed.
StatusOr<Keyboard> FireByKey(int keyboard, int events, SnapSource& source) {
  const pid_t foreground = tcgetpgrp(keyboard);
  if (foreground < 0 || (events & (POLLHUP | POLLERR | POLLNVAL))) return Keyboard::kGone;
  // In the background a read would stop us, and what is typed is another's: poll would return for it again and again.
  if (foreground != getpgrp()) return Keyboard::kLater;
  char typed[256];
  if (read(keyboard, typed, sizeof(typed)) <= 0) return Keyboard::kGone;
  RETURN_IF_ERROR(source.Fire());
  return Keyboard::kListen;
}

// True: the command's end was the end of the run.
StatusOr<bool> WaitForEnd(const RunRequest& request, Session& session, SnapSource& source, SnapConsumer& consumer, RunSignals* signals, int wake_fd) {
  const uint64_t end = request.duration_ns ? session.armed_ns() + request.duration_ns : UINT64_MAX;
  int child = session.command() ? session.command()->pidfd() : -1;
  const int steer = signals ? signals->fd() : request.control->fd();
  const int keyboard = KeyboardOf(request, session, source);
  Keyboard listening = keyboard >= 0 ? Keyboard::kListen : Keyboard::kGone;
  uint64_t next_tick = MonotonicNs() + kTickNs;
  while (true) {
    uint64_t now = MonotonicNs(), next = std::min(end, next_tick);
    int timeout = next <= now ? 0 : static_cast<int>((next - now + 999'999) / 1'000'000);
    pollfd fds[] = {{steer, POLLIN, 0}, {session.failed_fd(), POLLIN, 0}, {wake_fd, POLLIN, 0}, {child, POLLIN, 0}, {listening == Keyboard::kListen ? keyboard : -1, POLLIN, 0}};
    if (poll(fds, 5, timeout) < 0 && errno != EINTR) return ErrnoError(errno, "poll");
    if (fds[0].revents) {
      ASSIGN_OR_RETURN(bool go_on, Answer(request.control, signals, source));
      if (!go_on) return false;
    }
    if (fds[1].revents) return false;
    if (fds[2].revents) {
      uint64_t count;
      [[maybe_unused]] ssize_t n = read(wake_fd, &count, sizeof(count));
    }
    if (AllDone(request, consumer)) return false;
    if (fds[3].revents) return true;
    if (fds[4].revents) {
      ASSIGN_OR_RETURN(listening, FireByKey(keyboard, fds[4].revents, source));
    }
    now = MonotonicNs();
    if (now >= end) return false;
    if (now < next_tick) continue;
    next_tick = now + kTickNs;
    if (listening == Keyboard::kLater) listening = Keyboard::kListen;
    session.FollowHotplug();
    if (!session.TargetAlive()) return false;
  }
}

void FinishCommand(Session& session, RunResult* result) {
  CommandChild* child = session.command();
  if (!child || result->command_status) return;
  auto status = child->Finish(!result->command_decides);
  if (status.ok()) result->command_status = *status;
}

}  // namespace

StatusOr<RunResult> Run(RunRequest request) {
  std::optional<RunSignals> signals;
  if (!request.control) signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1});
  if (signals) RETURN_IF_ERROR(signals->status());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError(errno, "eventfd");
  if (request.target.pids.size() == 1 && request.target.command.empty()) request.snap.pid = request.target.pids[0];
  request.snap.everybody = request.target.all_cpus && !request.snap.groups.wants();
  ASSIGN_OR_RETURN(std::unique_ptr<SnapSource> made, SnapSource::Create(request.snap));
  SnapSource& source = *made;
  if (request.admit) RETURN_IF_ERROR(request.admit(source));
  std::unique_ptr<FileConsumer> file;
  if (!request.output.empty()) {
    ASSIGN_OR_RETURN(file, OpenOutput(request, source));
  }
  SnapConsumer consumer(source, request, file.get(), wake.get());
  SessionSpec spec;
  spec.target = request.target;
  spec.target.run_cgroup = TargetSpec::Group::kOff;  // triggers are filtered by the task set
  spec.command_stdout_to_stderr = request.output == "-";
  // Naming the first capture may read hundreds of megabytes of debug information, and each round of 0.1 s takes a buffer:
  // enough for half a minute, small ones.
  spec.buffers = 256;
  spec.buffer_size = 256 << 10;
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(spec, std::move(made), consumer));
  RunResult result;
  Status failed;
  ASSIGN_OR_RETURN(auto not_executed, session->ArmCommand());
  if (not_executed) {
    result.command_status = not_executed->status;
    result.exec_error = not_executed->error;
  } else {
    std::vector<std::string> notes = session->notes();
    notes.insert(notes.end(), source.notes().begin(), source.notes().end());
    if (request.armed) request.armed(notes);
    auto ended = WaitForEnd(request, *session, source, consumer, signals ? &*signals : nullptr, wake.get());
    if (ended.ok()) result.command_decides = *ended;
    else failed = ended.status();
  }
  uint64_t begin = MonotonicNs();
  source.Stop();
  result.detach_ns = MonotonicNs() - begin;
  result.consumer = session->Stop();
  // Whatever the end was: nobody would wait for a command that runs on.
  FinishCommand(*session, &result);
  RETURN_IF_ERROR(failed);
  result.captures = consumer.captures();
  result.books = session->books();
  result.stats = source.Report();
  result.notes = session->notes();
  result.notes.insert(result.notes.end(), source.notes().begin(), source.notes().end());
  return result;
}

}  // namespace brink::snap
