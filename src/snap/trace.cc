#include "snap/trace.h"

#include <linux/hw_breakpoint.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/signals.h"
#include "base/stop.h"
#include "base/strings.h"
#include "elf/file.h"
#include "exact/exact_source.h"
#include "kernel/proc_maps.h"
#include "snap/places.h"
#include "snap/trigger.h"
#include "source/walk_source.h"
#include "symbol/jit_source.h"

namespace brink::snap {
namespace {

// Where the kernel puts a position-independent program without address randomisation (ELF_ET_DYN_BASE of x86-64, arm64).
#if defined(__x86_64__)
constexpr uint64_t kFixedBase = 0x555555554000;
#else
constexpr uint64_t kFixedBase = 0xaaaaaaaa0000;
#endif
constexpr uint32_t kStepDepth = 2048;

// What of the trace's two places lies where in memory.
struct Resolved {
  uint64_t entry = 0;
  std::optional<uint64_t> exit;
  std::string shown;
};

StatusOr<uint64_t> AddressInProcess(pid_t pid, const UserProgram& program, const Place& place) {
  ASSIGN_OR_RETURN(std::vector<Mapping> maps, ReadMaps(pid));
  for (const Mapping& map : maps) {
    if (!map.executable || place.offset < map.offset || place.offset - map.offset >= map.end - map.start) continue;
    if (map.path == program.path || map.path == program.shown) return map.start + (place.offset - map.offset);
  }
  return NotFound("process " + std::to_string(pid) + " has not mapped " + EscapeForTerminal(program.shown));
}

// Of a command that is still to be started, without address randomisation: only the program itself has a known place.
StatusOr<uint64_t> AddressInCommand(const UserProgram& program, const Place& place, const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(UserProgram self, FindProgram(command[0], -1));
  char ours[PATH_MAX], theirs[PATH_MAX];
  if (!realpath(self.path.c_str(), ours) || !realpath(program.path.c_str(), theirs) || std::string_view(ours) != theirs) {
    return FailedPrecondition("with a command --trace-between knows the addresses of the program itself, " + EscapeForTerminal(self.path) + ", not of " + EscapeForTerminal(program.path) +
                              ": its libraries lie nowhere yet. Start it, and give -p PID");
  }
  ASSIGN_OR_RETURN(elf::File file, elf::File::Open(program.path));
  return file.position_independent() ? kFixedBase + place.vaddr : place.vaddr;
}

StatusOr<uint64_t> Locate(const std::string& text, const TraceRequest& request) {
  ASSIGN_OR_RETURN(Trigger trigger, ParseTrigger("uprobe:" + text));
  const pid_t pid = request.target.pids.empty() ? -1 : request.target.pids[0];
  ASSIGN_OR_RETURN(UserProgram program, FindProgram(trigger.path, pid));
  ASSIGN_OR_RETURN(std::vector<Place> places, FindPlaces(trigger, program, pid));
  if (places.size() > 1) return InvalidArgument("'" + EscapeForTerminal(text) + "' means " + std::to_string(places.size()) + " places; --trace-between takes one");
  return pid > 0 ? AddressInProcess(pid, program, places[0]) : AddressInCommand(program, places[0], request.target.command);
}

StatusOr<Resolved> Resolve(const TraceSpan& span, const TraceRequest& request) {
  Resolved out;
  auto entry = Locate(span.entry, request);
  if (!entry.ok()) return Annotate(entry.status(), "--trace-between " + EscapeForTerminal(span.entry));
  out.entry = *entry;
  if (span.exit.empty()) return out;
  auto exit = Locate(span.exit, request);
  if (!exit.ok()) return Annotate(exit.status(), "--trace-between .." + EscapeForTerminal(span.exit));
  out.exit = *exit;
  return out;
}

// Names spans once the mappings that name them have come, and prints them.
class TraceConsumer : public Consumer {
 public:
  TraceConsumer(const TraceSpan& span, const Resolved& places, const TraceRequest& request, std::string source, int wake_fd)
      : span_(span), places_(places), request_(request), source_(std::move(source)), wake_fd_(wake_fd) {}

  Status OnSample(const SampleView& sample) override {
    const auto* begin = reinterpret_cast<const std::byte*>(sample.head);
    waiting_.push_back({sample.head->time_ns, true, {begin, begin + sample.head->header.size}});
    ++spans_;
    if (request_.count && spans_ >= request_.count) Wake();
    return OkStatus();
  }
  Status OnPerfRecord(const PerfRecordView& record) override {
    waiting_.push_back({record.id.time_ns, false, {record.record.begin(), record.record.end()}});
    return OkStatus();
  }
  Status OnRound(uint64_t time_ns) override { return Release(time_ns); }
  Status Finish() override { return Release(UINT64_MAX); }

  uint64_t spans() const { return spans_; }
  uint64_t whole() const { return whole_; }
  uint64_t empty() const { return empty_; }

 private:
  struct Waiting {
    uint64_t time_ns;
    bool is_sample;
    std::vector<std::byte> bytes;
  };

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t n = write(wake_fd_, &one, sizeof(one));
  }

  Status Release(uint64_t before_ns) {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) { return a.time_ns < b.time_ns; });
    auto end = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& item) { return item.time_ns >= before_ns; });
    Status status;
    for (auto it = waiting_.begin(); it != end && status.ok(); ++it) {
      if (it->is_sample) status = Print(it->bytes);
      else names_.Observe({.record = it->bytes, .id = {}});
    }
    waiting_.erase(waiting_.begin(), end);
    return status;
  }

  Status Print(std::span<const std::byte> bytes) {
    auto sample = ViewSample(bytes);
    if (!sample || (request_.count && printed_ >= request_.count)) return OkStatus();
    ++printed_;
    const brink_sample& head = *sample->head;
    const int32_t pid = static_cast<int32_t>(head.tgid);
    Trace trace = {.span = &span_, .head = head, .comm = CommOf(pid), .inner_pid = symbol::InnermostPid("/proc", pid), .inner_tid = symbol::InnermostPid("/proc", static_cast<int32_t>(head.tid)), .source = source_, .entry = names_.NameOf(pid, head.ip, request_.lines, false), .steps = {}, .stop = {}};
    const SpanEnd end = FindSpanEnd(sample->branches, head.ip, head.end_ip, places_.exit);
    trace.reached = end.reached;
    trace.end = end.reached && places_.exit ? *places_.exit : head.end_ip;
    if (!end.reached) trace.stop = StopReasonName(head.stop);
    for (size_t i = 0; i < end.taken; ++i) {
      const BranchEntry& entry = sample->branches[sample->branches.size() - 1 - i];
      trace.steps.push_back({.from = names_.NameOf(pid, entry.from, request_.lines, false), .to = names_.NameOf(pid, entry.to, request_.lines, false), .kind = entry.kind()});
    }
    whole_ += end.reached;
    empty_ += sample->branches.empty();
    return request_.print ? request_.print(trace) : OkStatus();
  }

  static std::string CommOf(int32_t pid) {
    auto text = ReadFile("/proc/" + std::to_string(pid) + "/comm");
    return text.ok() ? std::string(Trim(*text)) : "";
  }

  const TraceSpan& span_;
  const Resolved& places_;
  const TraceRequest& request_;
  const std::string source_;
  const int wake_fd_;
  AddressNamer names_;
  std::vector<Waiting> waiting_;
  std::atomic<uint64_t> spans_{0}, whole_{0}, empty_{0};
  uint64_t printed_ = 0;
};

// Sets the flag for children that are made meanwhile.
class NoRandomisation {
 public:
  explicit NoRandomisation(bool wanted) : before_(wanted ? personality(0xffffffff) : -1) {
    if (before_ >= 0) personality(static_cast<unsigned long>(before_) | ADDR_NO_RANDOMIZE);
  }
  ~NoRandomisation() {
    if (before_ >= 0) personality(static_cast<unsigned long>(before_));
  }

 private:
  int before_;
};

StatusOr<std::unique_ptr<StackSource>> MakeSource(const TraceRequest& request, const Resolved& places, SessionSpec* session, std::vector<std::string>* notes) {
  if (request.source == "step" || request.source == "hop") {
    ExactOptions exact;
    exact.follow.hop = request.source == "hop";
    exact.follow.at = places.entry;
    exact.follow.until = places.exit.value_or(0);
    exact.follow.until_return = !places.exit;
    exact.follow.depth = request.depth ? request.depth : kStepDepth;
    exact.follow.max_stops = 1'000'000;
    exact.branch_sample_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_TYPE_SAVE;
    return std::make_unique<ExactSource>(std::move(exact));
  }
  if (request.source != "walk" && request.source != "auto") return InvalidArgument("--source '" + EscapeForTerminal(request.source) + "': a span is followed by walk, step or hop");
  EventSpec event;
  event.type = PERF_TYPE_BREAKPOINT;
  event.name = "breakpoint";
  event.config1 = places.entry;
  event.config2 = sizeof(long);
  event.bp_type = HW_BREAKPOINT_X;
  event.exclude_kernel = true;
  event.period = 1;
  session->events = {event};
  session->period = 1;
  WalkSourceOptions walk;
  walk.mode = WalkMode::kPreferTask;
  walk.depth = request.depth;
  walk.share_permille = 1000;  // each span was asked for
  notes->push_back("walk: the branches that follow the entry, executed in the kernel from the registers there; the first hits find code that is not lifted yet (\"miss\")");
  return WalkSource::Create(walk);
}

bool Done(const TraceRequest& request, const TraceConsumer& consumer) { return request.count && consumer.spans() >= request.count; }

Status WaitForEnd(const TraceRequest& request, Session& session, TraceConsumer& consumer, RunSignals* signals, int wake_fd, TraceResult* result) {
  const uint64_t end = request.duration_ns ? session.armed_ns() + request.duration_ns : UINT64_MAX;
  const int child = session.command() ? session.command()->pidfd() : -1;
  const int steer = signals ? signals->fd() : request.control->fd();
  Status failed;
  while (true) {
    pollfd fds[] = {{steer, POLLIN, 0}, {session.failed_fd(), POLLIN, 0}, {wake_fd, POLLIN, 0}, {child, POLLIN, 0}};
    if (poll(fds, 4, 250) < 0 && errno != EINTR) {
      failed = ErrnoError(errno, "poll");
      break;
    }
    if (fds[0].revents) {
      if (!signals) request.control->Clear();
      if (signals ? signals->Next() != 0 : request.control->stopped()) break;
    }
    if (fds[1].revents || fds[3].revents || Done(request, consumer) || MonotonicNs() >= end || !session.TargetAlive()) break;
    session.FollowHotplug();
  }
  CommandChild* command = session.command();
  if (!command) return failed;
  auto status = command->Finish(true);
  if (status.ok()) result->command_status = *status;
  return failed;
}

}  // namespace

StatusOr<TraceSpan> ParseTraceSpan(std::string_view text) {
  TraceSpan span;
  const size_t dots = text.find("..");
  span.entry = std::string(Trim(text.substr(0, dots)));
  if (dots != std::string_view::npos) span.exit = std::string(Trim(text.substr(dots + 2)));
  const size_t colon = span.entry.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == span.entry.size()) {
    return InvalidArgument("--trace-between '" + EscapeForTerminal(text) + "': expected PATH:ENTRY..EXIT, as ./server:handle..handle+0x40, or PATH:ENTRY for all of a function");
  }
  // FILE:LINE and FUNC+OFF have no path of their own: it is the entry's.
  if (!span.exit.empty() && (span.exit.find(':') == std::string::npos || span.exit.find('/') == std::string::npos)) span.exit = span.entry.substr(0, colon + 1) + span.exit;
  return span;
}

SpanEnd FindSpanEnd(std::span<const BranchEntry> newest_first, uint64_t entry, uint64_t end_ip, std::optional<uint64_t> exit) {
  SpanEnd end;
  uint64_t at = entry;
  int depth = 0;
  for (auto it = newest_first.rbegin(); it != newest_first.rend(); ++it) {
    // The straight line before this branch.
    if (exit && at <= *exit && *exit <= it->from && (*exit != entry || end.taken > 0)) {
      end.reached = true;
      return end;
    }
    ++end.taken;
    at = it->to;
    if (it->kind() == Kind::kCall || it->kind() == Kind::kIndCall) ++depth;
    if (it->kind() == Kind::kRet && depth-- == 0 && !exit) {
      end.reached = true;
      return end;
    }
  }
  if (exit && end_ip && at <= *exit && *exit <= end_ip) end.reached = true;
  return end;
}

StatusOr<TraceResult> TraceBetween(TraceRequest request) {
  const bool command = !request.target.command.empty();
  if (request.target.pids.size() + (command ? 1 : 0) != 1) return InvalidArgument("--trace-between needs one process: -p PID, or a command");
  ASSIGN_OR_RETURN(TraceSpan span, ParseTraceSpan(request.span));
  ASSIGN_OR_RETURN(Resolved places, Resolve(span, request));
  std::optional<RunSignals> signals;
  if (!request.control) signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP});
  if (signals) RETURN_IF_ERROR(signals->status());
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoError(errno, "eventfd");
  TraceResult result;
  SessionSpec spec;
  spec.target = request.target;
  spec.target.run_cgroup = TargetSpec::Group::kOff;
  spec.buffers = 64;
  ASSIGN_OR_RETURN(std::unique_ptr<StackSource> source, MakeSource(request, places, &spec, &result.notes));
  TraceConsumer consumer(span, places, request, source->traits().name, wake.get());
  std::unique_ptr<Session> session;
  {
    NoRandomisation fixed(command);
    ASSIGN_OR_RETURN(session, Session::Create(spec, std::move(source), consumer));
  }
  ASSIGN_OR_RETURN(auto not_executed, session->ArmCommand());
  if (not_executed) {
    result.command_status = not_executed->status;
    result.exec_error = not_executed->error;
  } else {
    result.notes.insert(result.notes.end(), session->notes().begin(), session->notes().end());
    if (request.armed) request.armed(result.notes);
    RETURN_IF_ERROR(WaitForEnd(request, *session, consumer, signals ? &*signals : nullptr, wake.get(), &result));
  }
  result.consumer = session->Stop();
  result.spans = consumer.spans();
  result.whole = consumer.whole();
  result.empty = consumer.empty();
  result.books = session->books();
  result.stats = session->source().Report();
  return result;
}

}  // namespace brink::snap
