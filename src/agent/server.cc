#include "agent/server.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <map>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "agent/connections.h"
#include "agent/flight_session.h"
#include "agent/job_table.h"
#include "agent/metrics.h"
#include "agent/notify.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink::agent {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kTickNs = 250'000'000, kSlowTickNs = 1'000'000'000;

uint64_t OwnCpuNs() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto ns = [](const timeval& t) { return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_usec) * 1000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return OkStatus();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoError(errno, "make the folder " + path);
  return OkStatus();
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// "flight-20261130T101500-3.data"
std::string MadeUpName(const char* what, uint64_t number, const char* extension) {
  const time_t now = time(nullptr);
  tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &parts);
  return absl::StrFormat("%s-%s-%d.%s", what, text, number, extension);
}

class Server {
 public:
  explicit Server(AgentOptions options)
      : options_(std::move(options)),
        budget_(options_.budgets),
        governor_(options_.budgets.max_cpu_percent),
        connections_({.socket = options_.socket, .metrics = options_.metrics, .hello = HelloLine(options_.version), .max_clients = options_.budgets.max_clients},
                     {.request = [this](uint64_t id, const std::string& line) { Handle(id, line); },
                      .gone = [this](uint64_t id) { jobs_.ForgetClient(id); },
                      .http = [this](std::string_view head) { return HttpAnswer(head, Gather()); }}),
        jobs_(options_.factories, options_.budgets, mailbox_, budget_, connections_, totals_) {}
  Status Start();
  Status Loop();
  void End();

 private:
  Status StartFlight();
  Status StartOwnJobs(std::vector<std::string>* lines);
  void Handle(uint64_t id, const std::string& line);
  Status Act(uint64_t id, const Request& request);
  Status StartJob(uint64_t id, const Request& request);
  Status DumpFor(uint64_t id, const Request& request);
  void DumpByItself();
  void TakeMail();
  void TakeDumps();
  void Tick(uint64_t now);
  Figures Gather() const;
  StatusOr<std::string> NewPath(const std::string& name, const std::string& made_up) const;

  AgentOptions options_;
  SharedBudget budget_;
  CpuGovernor governor_;
  Mailbox mailbox_;
  Figures totals_;                          // counts only
  Connections connections_;
  JobTable jobs_;
  std::optional<RunSignals> signals_;
  std::unique_ptr<FlightSession> flight_;
  std::string flight_error_;
  uint64_t next_dump_ = 1;
  uint64_t started_ns_ = 0, next_tick_ = 0, next_slow_tick_ = 0;

  // Dumps that were made, from their thread.
  struct MadeDump {
    uint64_t client;
    int64_t request;
    std::string path;
    StatusOr<uint64_t> samples;
    uint64_t bytes;
  };
  Mutex dump_mutex_;
  std::deque<MadeDump> made_ ABSL_GUARDED_BY(dump_mutex_);
  std::atomic<uint64_t> dump_wanted_ns_{0};  // by a capture, on its job's thread
};

Status Server::Start() {
  started_ns_ = NowNs();
  signals_.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1});
  RETURN_IF_ERROR(signals_->status());
  RETURN_IF_ERROR(MakeFolder(options_.dir));
  RETURN_IF_ERROR(MakeFolder(std::filesystem::path(options_.socket).parent_path()));
  RETURN_IF_ERROR(connections_.Open());
  RETURN_IF_ERROR(mailbox_.Open());
  std::vector<std::string> lines = {"serves " + options_.socket};
  if (!options_.flight_options.empty()) {
    RETURN_IF_ERROR(StartFlight());
    lines.push_back("flight recorder: the last " + FormatDuration(options_.flight.window_ns) + ", source " + flight_->source());
    for (const std::string& note : flight_->notes()) lines.push_back(note);
  }
  RETURN_IF_ERROR(StartOwnJobs(&lines));
  if (options_.ready) options_.ready(lines);
  NotifyManager("READY=1\nSTATUS=serving " + options_.socket);
  return OkStatus();
}

Status Server::StartFlight() {
  ASSIGN_OR_RETURN(auto make, options_.factories.recording(options_.flight_options));
  auto recording = make();
  if (!recording.ok()) return Annotate(recording.status(), "flight recorder");
  auto flight = FlightSession::Start(options_.flight, *std::move(recording));
  if (!flight.ok()) return Annotate(flight.status(), "flight recorder");
  flight_ = *std::move(flight);
  return budget_.AcquireFilter(0, "the flight recorder", flight_->branch_bits());
}

Status Server::StartOwnJobs(std::vector<std::string>* lines) {
  for (const std::vector<std::string>& words : options_.dump_on) {
    if (!flight_) return InvalidArgument("--dump-on needs the flight recorder (--window)");
    Request request = {.verb = Verb::kStart, .kind = JobKind::kSnap, .options = words, .dump = true};
    RETURN_IF_ERROR(StartJob(0, request));
    lines->push_back("dumps at " + Joined(words));
  }
  return OkStatus();
}

StatusOr<std::string> Server::NewPath(const std::string& name, const std::string& made_up) const {
  const std::string path = options_.dir + "/" + (name.empty() ? made_up : name);
  if (access(path.c_str(), F_OK) == 0) return FailedPrecondition("there is a file " + path + " already");
  return path;
}

void Server::Handle(uint64_t id, const std::string& line) {
  int64_t request_id = 0;
  auto request = ParseRequest(line, &request_id);
  const std::string verb = request.ok() ? std::string(VerbName(request->verb)) : "invalid";
  ++totals_.requests[verb];
  Status done = request.ok() ? Act(id, *request) : request.status();
  if (done.ok()) return;
  ++totals_.failures[verb];
  connections_.Answer(id, ErrorLine(request_id, done));
}

Status Server::Act(uint64_t id, const Request& request) {
  switch (request.verb) {
    case Verb::kStatus: connections_.Answer(id, OkLine(request.id, StatusJson(Gather()))); return OkStatus();
    case Verb::kStart: case Verb::kSnap: return StartJob(id, request);
    case Verb::kStop: return jobs_.Stop(id, request.id, *request.job);
    case Verb::kDump: return DumpFor(id, request);
    case Verb::kFire:
      RETURN_IF_ERROR(jobs_.Fire(*request.job));
      connections_.Answer(id, OkLine(request.id, {{"job", *request.job}}));
      return OkStatus();
  }
  return Internal("verb");
}

Status Server::StartJob(uint64_t id, const Request& request) {
  if (request.dump && !flight_) return FailedPrecondition("there is no flight recorder to dump: start the agent with --window");
  JobTable::Order order = {.client = id, .request = request.id, .client_name = id ? connections_.NameOf(id) : "the agent itself", .options = request.options};
  order.kind = request.verb == Verb::kSnap ? JobKind::kSnap : request.kind;
  order.stream = request.verb == Verb::kSnap;
  order.text = request.text;
  order.colour = request.colour;
  order.paused = governor_.paused();
  if (request.dump) {
    order.dump = [this](uint64_t time_ns) { dump_wanted_ns_ = time_ns; };
  } else if (!order.stream) {
    order.path = [this, &request, record = order.kind == JobKind::kRecord](uint64_t job) {
      return NewPath(request.name, MadeUpName(record ? "record" : "snap", job, record ? "data" : "jsonl"));
    };
  }
  return jobs_.Start(std::move(order), options_.dump_on.size());  // answered when it is armed
}

Status Server::DumpFor(uint64_t id, const Request& request) {
  if (!flight_) return FailedPrecondition("there is no flight recorder: start the agent with --window");
  ASSIGN_OR_RETURN(std::string path, NewPath(request.name, MadeUpName("flight", next_dump_, "data")));
  auto done = [this, id, request_id = request.id, path](StatusOr<uint64_t> samples, uint64_t bytes) {
    {
      MutexLock lock(dump_mutex_);
      made_.push_back({id, request_id, path, std::move(samples), bytes});
    }
    mailbox_.Put({.job = 0, .kind = JobMessage::Kind::kEnded, .json = "", .status = {}});
  };
  if (!flight_->Dump(path, NowNs(), budget_.bytes_left(), done)) return Aborted("busy: a file of the flight recorder is just being written");
  ++next_dump_;
  return OkStatus();
}

void Server::DumpByItself() {
  if (DumpFor(0, {.verb = Verb::kDump}).code() == absl::StatusCode::kAborted) ++totals_.dumps_skipped;
}

void Server::TakeDumps() {
  std::deque<MadeDump> made;
  {
    MutexLock lock(dump_mutex_);
    made.swap(made_);
  }
  for (const MadeDump& dump : made) {
    budget_.AddBytes(dump.bytes);
    if (dump.samples.ok()) ++totals_.dumps;
    else ++totals_.failures["dump"];
    if (!dump.client) continue;
    connections_.Answer(dump.client, dump.samples.ok() ? OkLine(dump.request, {{"file", dump.path}, {"samples", *dump.samples}, {"bytes", dump.bytes}}) : ErrorLine(dump.request, dump.samples.status()));
  }
}

void Server::TakeMail() {
  for (const JobMessage& message : mailbox_.TakeAll()) {
    if (message.job != 0) jobs_.Take(message);  // 0: a dump
  }
  TakeDumps();
  connections_.Flush();
}

void Server::Tick(uint64_t now) {
  const bool paused = governor_.Update(now, OwnCpuNs());
  if (flight_) flight_->Pause(paused);
  jobs_.Hold(now, paused, budget_.bytes_left() == 0);
  if (uint64_t wanted = dump_wanted_ns_.exchange(0); wanted && flight_) DumpByItself();
  connections_.Tick(now);
  if (now < next_slow_tick_) return;
  next_slow_tick_ = now + kSlowTickNs;
  NotifyManager("WATCHDOG=1");
  jobs_.HoldToRate(now);
  if (!flight_) return;
  flight_->Tick();
  if (!flight_->failed()) return;
  flight_error_ = "the flight recorder has failed";
  flight_.reset();
  budget_.ReleaseFilter(0);
}

Figures Server::Gather() const {
  Figures f = totals_;
  f.version = options_.version;
  f.pid = getpid();
  const uint64_t now = NowNs();
  f.uptime_ns = now - started_ns_;
  f.budgets = options_.budgets;
  f.cpu_percent = governor_.percent();
  f.paused = governor_.paused();
  f.cpu_ns = OwnCpuNs();
  f.paused_ns = governor_.paused_ns();
  f.pauses = governor_.pauses();
  f.bytes = budget_.bytes();
  f.over_rate = budget_.refused();
  f.filter = budget_.held_filter();
  f.clients = static_cast<uint32_t>(connections_.clients());
  f.connections = connections_.accepted();
  f.refused = connections_.refused();
  f.flight_error = flight_error_;
  if (flight_) {
    f.flight = flight_->facts();
    f.flight_source = flight_->source();
    f.flight_window_ns = options_.flight.window_ns;
    f.flight_lost = flight_->lost();
  }
  jobs_.AddTo(now, &f);
  return f;
}

Status Server::Loop() {
  while (true) {
    std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}, {mailbox_.fd(), POLLIN, 0}};
    const size_t own = fds.size();
    connections_.Watch(&fds);
    uint64_t now = NowNs();
    const int timeout = next_tick_ <= now ? 0 : static_cast<int>((next_tick_ - now + 999'999) / 1'000'000);
    if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) return ErrnoError(errno, "poll");
    while (int signal = signals_->Next()) {
      if (signal != SIGUSR1) return OkStatus();
      if (flight_) DumpByItself();
    }
    if (fds[1].revents) TakeMail();
    connections_.Serve(fds.data() + own);
    now = NowNs();
    if (now < next_tick_) continue;
    next_tick_ = now + kTickNs;
    Tick(now);
  }
}

void Server::End() {
  NotifyManager("STOPPING=1");
  jobs_.StopAll("the agent ends");
  // Results of what ends now still go to whoever waits for them.
  while (!jobs_.empty()) {
    pollfd fd = {mailbox_.fd(), POLLIN, 0};
    poll(&fd, 1, 1000);
    TakeMail();
  }
  flight_.reset();
  TakeDumps();
  connections_.Flush();
  connections_.Close();
}

}  // namespace

Status Serve(AgentOptions options) {
  Server server(std::move(options));
  Status status = server.Start();
  if (status.ok()) status = server.Loop();
  server.End();
  return status;
}

}  // namespace brink::agent
