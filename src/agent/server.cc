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
#include "agent/metrics.h"
#include "agent/notify.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/units.h"

namespace brink::agent {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kTickNs = 250'000'000, kSlowTickNs = 1'000'000'000;
constexpr size_t kEndedKept = 16;

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

// A job and who waits for it.
struct Running {
  std::unique_ptr<Job> job;
  uint64_t client = 0;   // of a streaming job, and of the answer that is owed; 0 nobody
  int64_t request = 0;
  bool answered = false; // the start's answer has gone out
  uint64_t dropped = 0;  // captures that the client's connection had no room for
  uint64_t samples_told = 0, over_rate_until_ns = 0;  // recordings whose rate nobody can know before
  std::vector<std::pair<uint64_t, int64_t>> stoppers;  // client, request: answered at the end
};

class Server {
 public:
  explicit Server(AgentOptions options)
      : options_(std::move(options)),
        budget_(options_.budgets),
        governor_(options_.budgets.max_cpu_percent),
        connections_({.socket = options_.socket, .metrics = options_.metrics, .hello = HelloLine(options_.version), .max_clients = options_.budgets.max_clients},
                     {.request = [this](uint64_t id, const std::string& line) { Handle(id, line); },
                      .gone = [this](uint64_t id) { ForgetClient(id); },
                      .http = [this](std::string_view head) { return HttpAnswer(head, Gather()); }}) {}
  Status Start();
  Status Loop();
  void End();

 private:
  Status StartFlight();
  Status StartOwnJobs(std::vector<std::string>* lines);
  void ForgetClient(uint64_t id);
  void Handle(uint64_t id, const std::string& line);
  Status Act(uint64_t id, const Request& request);
  Status StartJob(uint64_t id, const Request& request);
  Status StopJob(uint64_t id, const Request& request);
  Status DumpFor(uint64_t id, const Request& request);
  void DumpByItself();
  void TakeMail();
  void TakeDumps();
  void OnEnded(const JobMessage& message);
  void Tick(uint64_t now);
  void HoldToRate(uint64_t now, Running* running);
  Figures Gather() const;
  StatusOr<std::string> NewPath(const std::string& name, const std::string& made_up) const;

  AgentOptions options_;
  SharedBudget budget_;
  CpuGovernor governor_;
  Connections connections_;
  Mailbox mailbox_;
  std::optional<RunSignals> signals_;
  std::unique_ptr<FlightSession> flight_;
  std::string flight_error_;
  std::map<uint64_t, Running> jobs_;
  std::deque<JobFigures> ended_;
  uint64_t next_job_ = 1, next_dump_ = 1;
  uint64_t started_ns_ = 0, next_tick_ = 0, next_slow_tick_ = 0;
  Figures totals_;                          // counts only

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

// What streams to a client that is gone ends; what it started stays.
void Server::ForgetClient(uint64_t id) {
  for (auto& [number, running] : jobs_) {
    if (running.client != id) continue;
    running.client = 0;
    if (running.job->spec().stream) running.job->Stop("its client is gone");
  }
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
    case Verb::kStop: return StopJob(id, request);
    case Verb::kDump: return DumpFor(id, request);
    case Verb::kFire: {
      auto it = jobs_.find(*request.job);
      if (it == jobs_.end()) return NotFound("no job " + std::to_string(*request.job) + " runs");
      if (it->second.job->spec().kind != JobKind::kSnap) return InvalidArgument("job " + std::to_string(*request.job) + " is a recording; manual triggers are snap's");
      it->second.job->control().Fire();
      connections_.Answer(id, OkLine(request.id, {{"job", *request.job}}));
      return OkStatus();
    }
  }
  return Internal("verb");
}

Status Server::StartJob(uint64_t id, const Request& request) {
  // Jobs of the agent's own do not count.
  const size_t own = options_.dump_on.size();
  if (id != 0 && jobs_.size() >= options_.budgets.max_jobs + own) return ResourceExhausted(absl::StrFormat("%d jobs run, which is the agent's budget (--max-jobs): brink ctl stop ends one", jobs_.size() - own));
  if (request.dump && !flight_) return FailedPrecondition("there is no flight recorder to dump: start the agent with --window");
  JobSpec spec = {.id = next_job_, .kind = request.verb == Verb::kSnap ? JobKind::kSnap : request.kind, .options = request.options};
  spec.client = id ? connections_.NameOf(id) : "the agent itself";
  spec.stream = request.verb == Verb::kSnap;
  spec.text = request.text;
  spec.colour = request.colour;
  if (request.dump) {
    spec.dump = [this](uint64_t time_ns) { dump_wanted_ns_ = time_ns; };
  } else if (!spec.stream) {
    const bool record = spec.kind == JobKind::kRecord;
    ASSIGN_OR_RETURN(spec.path, NewPath(request.name, MadeUpName(record ? "record" : "snap", spec.id, record ? "data" : "jsonl")));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Job> job, Job::Start(std::move(spec), options_.factories, mailbox_, budget_));
  if (governor_.paused()) job->control().Pause(true);
  jobs_[next_job_++] = {.job = std::move(job), .client = id, .request = request.id, .stoppers = {}};
  ++totals_.started;
  return OkStatus();  // answered when it is armed
}

Status Server::StopJob(uint64_t id, const Request& request) {
  auto it = jobs_.find(*request.job);
  if (it == jobs_.end()) return NotFound("no job " + std::to_string(*request.job) + " runs; brink ctl status lists them");
  it->second.stoppers.emplace_back(id, request.id);
  it->second.job->Stop("stopped by " + connections_.NameOf(id));
  return OkStatus();
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
    if (message.job == 0) continue;  // a dump: TakeDumps
    auto it = jobs_.find(message.job);
    if (it == jobs_.end()) continue;
    Running& running = it->second;
    switch (message.kind) {
      case JobMessage::Kind::kArmed: {
        running.answered = true;
        ordered_json result = {{"job", message.job}, {"notes", ordered_json::parse(message.json)}};
        if (!running.job->spec().path.empty()) result["file"] = running.job->spec().path;
        connections_.Answer(running.client, OkLine(running.request, result));
        break;
      }
      case JobMessage::Kind::kCapture: {
        const char* name = running.job->spec().text ? "text" : "capture";
        if (running.client && !connections_.Offer(running.client, EventLineRaw(running.request, "capture", message.job, name, message.json))) ++running.dropped;
        break;
      }
      case JobMessage::Kind::kEnded: OnEnded(message); break;
    }
  }
  TakeDumps();
  connections_.Flush();
}

void Server::OnEnded(const JobMessage& message) {
  Running running = std::move(jobs_.at(message.job));
  jobs_.erase(message.job);
  Job& job = *running.job;
  const JobSpec& spec = job.spec();
  const uint64_t dropped = job.dropped() + running.dropped;
  totals_.dropped += dropped;
  (spec.kind == JobKind::kRecord ? totals_.samples : totals_.captures) += job.captures();
  const std::string why = !message.status.ok() ? Message(message.status) : job.why().empty() ? "done" : job.why();
  ordered_json result = {{"job", message.job}, {"reason", why}, {"dropped", dropped}, {"file", spec.path.empty() ? ordered_json(nullptr) : ordered_json(spec.path)},
                         {"summary", ordered_json::parse(message.json, nullptr, false)}};
  if (!running.answered) {
    // It never came to be.
    ++totals_.failures[running.job->spec().stream ? "snap" : "start"];
    connections_.Answer(running.client, ErrorLine(running.request, message.status.ok() ? Aborted("ended before it was armed: " + why) : message.status));
  } else if (spec.stream) {
    connections_.Answer(running.client, EventLine(running.request, "end", {{"job", message.job}, {"result", result}}));
  }
  for (const auto& [client, request] : running.stoppers) connections_.Answer(client, OkLine(request, result));
  ended_.push_front({.id = message.job, .kind = std::string(JobKindName(spec.kind)), .client = spec.client, .file = spec.path, .options = Joined(spec.options), .state = "ended",
                     .captures = job.captures(), .dropped = dropped, .over_rate = job.over_rate(), .bytes = job.bytes(), .age_ns = NowNs() - job.started_ns(), .ended = why});
  if (ended_.size() > kEndedKept) ended_.pop_back();
}

// A recording at events whose rate nobody can know beforehand: what came too much is waited out.
void Server::HoldToRate(uint64_t now, Running* running) {
  const Job& job = *running->job;
  const uint64_t most = options_.budgets.max_rate, samples = job.captures();
  const uint64_t fresh = samples - std::exchange(running->samples_told, samples);
  if (job.spec().kind != JobKind::kRecord || most == 0 || fresh <= most + most / 4) return;
  running->over_rate_until_ns = std::max(now, running->over_rate_until_ns) + fresh * kSlowTickNs / most - kSlowTickNs;
}

void Server::Tick(uint64_t now) {
  const bool paused = governor_.Update(now, OwnCpuNs());
  if (flight_) flight_->Pause(paused);
  const bool over = budget_.bytes_left() == 0;
  for (auto& [id, running] : jobs_) {
    running.job->control().Pause(paused || running.over_rate_until_ns > now);
    if (over && !running.job->spec().path.empty()) running.job->Stop("the agent's budget of bytes is used up (--max-bytes)");
  }
  if (uint64_t wanted = dump_wanted_ns_.exchange(0); wanted && flight_) DumpByItself();
  connections_.Tick(now);
  if (now < next_slow_tick_) return;
  next_slow_tick_ = now + kSlowTickNs;
  NotifyManager("WATCHDOG=1");
  for (auto& [id, running] : jobs_) HoldToRate(now, &running);
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
  for (const auto& [id, running] : jobs_) {
    const Job& job = *running.job;
    const JobSpec& spec = job.spec();
    (spec.kind == JobKind::kRecord ? f.samples : f.captures) += job.captures();
    f.dropped += job.dropped() + running.dropped;
    f.jobs.push_back({.id = id, .kind = std::string(JobKindName(spec.kind)), .client = spec.client, .file = spec.path, .options = Joined(spec.options),
                      .state = !job.armed() ? "starting" : f.paused ? "paused" : "running", .captures = job.captures(), .dropped = job.dropped() + running.dropped,
                      .over_rate = job.over_rate(), .bytes = job.bytes(), .age_ns = now - job.started_ns(), .ended = ""});
  }
  f.jobs.insert(f.jobs.end(), ended_.begin(), ended_.end());
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
  for (auto& [id, running] : jobs_) running.job->Stop("the agent ends");
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
