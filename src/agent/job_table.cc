#include "agent/job_table.h"

#include <algorithm>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace brink::agent {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr size_t kEndedKept = 16;

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

Status JobTable::Start(Order order, size_t own) {
  if (order.client != 0 && jobs_.size() >= budgets_.max_jobs + own) {
    return ResourceExhausted(absl::StrFormat("%d jobs run, which is the agent's budget (--max-jobs): brink ctl stop ends one", jobs_.size() - std::min(own, jobs_.size())));
  }
  JobSpec spec = {.id = next_, .kind = order.kind, .options = std::move(order.options), .client = std::move(order.client_name)};
  spec.stream = order.stream;
  spec.text = order.text;
  spec.colour = order.colour;
  spec.dump = std::move(order.dump);
  if (order.path) {
    ASSIGN_OR_RETURN(spec.path, order.path(next_));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Job> job, Job::Start(std::move(spec), factories_, mailbox_, budget_));
  if (order.paused) job->control().Pause(true);
  jobs_[next_++] = {.job = std::move(job), .client = order.client, .request = order.request, .stoppers = {}};
  ++totals_.started;
  return OkStatus();
}

Status JobTable::Stop(uint64_t client, int64_t request, uint64_t job) {
  auto it = jobs_.find(job);
  if (it == jobs_.end()) return NotFound("no job " + std::to_string(job) + " runs; brink ctl status lists them");
  it->second.stoppers.emplace_back(client, request);
  it->second.job->Stop("stopped by " + connections_.NameOf(client));
  return OkStatus();
}

Status JobTable::Fire(uint64_t job) {
  auto it = jobs_.find(job);
  if (it == jobs_.end()) return NotFound("no job " + std::to_string(job) + " runs");
  if (it->second.job->spec().kind != JobKind::kSnap) return InvalidArgument("job " + std::to_string(job) + " is a recording; manual triggers are snap's");
  const std::vector<std::string>& words = it->second.job->spec().options;
  if (std::none_of(words.begin(), words.end(), [](const std::string& word) { return word == "manual" || word == "--on=manual"; })) {
    return FailedPrecondition("job " + std::to_string(job) + " has no manual trigger: start it with --on manual");
  }
  it->second.job->control().Fire();
  return OkStatus();
}

void JobTable::ForgetClient(uint64_t client) {
  for (auto& [number, running] : jobs_) {
    if (running.client != client) continue;
    running.client = 0;
    if (running.job->spec().stream) running.job->Stop("its client is gone");
  }
}

void JobTable::StopAll(const std::string& why) {
  for (auto& [number, running] : jobs_) running.job->Stop(why);
}

void JobTable::Take(const JobMessage& message) {
  auto it = jobs_.find(message.job);
  if (it == jobs_.end()) return;
  Running& running = it->second;
  switch (message.kind) {
    case JobMessage::Kind::kArmed: OnArmed(message, &running); break;
    case JobMessage::Kind::kCapture: {
      const char* name = running.job->spec().text ? "text" : "capture";
      if (running.client && !connections_.Offer(running.client, EventLineRaw(running.request, "capture", message.job, name, message.json))) ++running.dropped;
      break;
    }
    case JobMessage::Kind::kEnded: OnEnded(message); break;
  }
}

void JobTable::OnArmed(const JobMessage& message, Running* running) {
  running->answered = true;
  ordered_json result = {{"job", message.job}, {"notes", ordered_json::parse(message.json)}};
  if (running->job->control().paused()) result["notes"].push_back("the agent is above a budget (brink ctl status; --max-cpu counts its start too): nothing is captured until it is below");
  if (!running->job->spec().path.empty()) result["file"] = running->job->spec().path;
  connections_.Answer(running->client, OkLine(running->request, result));
}

JobFigures JobTable::FiguresOf(const Running& running, uint64_t now, std::string state) {
  const Job& job = *running.job;
  const JobSpec& spec = job.spec();
  // A job that was never armed has no file.
  return {.id = spec.id, .kind = std::string(JobKindName(spec.kind)), .client = spec.client, .file = job.armed() ? spec.path : "", .options = Joined(spec.options), .state = std::move(state),
          .captures = job.captures(), .dropped = job.dropped() + running.dropped, .over_rate = job.over_rate(), .bytes = job.bytes(), .age_ns = now - job.started_ns(), .ended = ""};
}

void JobTable::OnEnded(const JobMessage& message) {
  Running running = std::move(jobs_.at(message.job));
  jobs_.erase(message.job);
  const Job& job = *running.job;
  const JobSpec& spec = job.spec();
  const std::string why = !message.status.ok() ? Message(message.status) : job.why().empty() ? "done" : job.why();
  JobFigures figures = FiguresOf(running, NowNs(), "ended");
  figures.ended = why;
  totals_.dropped += figures.dropped;
  (spec.kind == JobKind::kRecord ? totals_.samples : totals_.captures) += figures.captures;
  const ordered_json result = {{"job", message.job}, {"reason", why}, {"dropped", figures.dropped}, {"file", figures.file.empty() ? ordered_json(nullptr) : ordered_json(figures.file)},
                               {"summary", ordered_json::parse(message.json, nullptr, false)}};
  if (!running.answered) {
    // It never came to be.
    ++totals_.failures[spec.stream ? "snap" : "start"];
    connections_.Answer(running.client, ErrorLine(running.request, message.status.ok() ? Aborted("ended before it was armed: " + why) : message.status));
  } else if (spec.stream) {
    connections_.Answer(running.client, EventLine(running.request, "end", {{"job", message.job}, {"result", result}}));
  }
  for (const auto& [client, request] : running.stoppers) connections_.Answer(client, OkLine(request, result));
  ended_.push_front(std::move(figures));
  if (ended_.size() > kEndedKept) ended_.pop_back();
}

void JobTable::Hold(uint64_t now, bool paused, bool over) {
  for (auto& [id, running] : jobs_) {
    running.job->control().Pause(paused || running.over_rate_until_ns > now);
    if (over && !running.job->spec().path.empty()) running.job->Stop("the agent's budget of bytes is used up (--max-bytes)");
  }
}

// What came too much is waited out.
void JobTable::HoldToRate(uint64_t now) {
  const uint64_t most = budgets_.max_rate;
  for (auto& [id, running] : jobs_) {
    const Job& job = *running.job;
    const uint64_t samples = job.captures();
    const uint64_t fresh = samples - std::exchange(running.samples_told, samples);
    if (job.spec().kind != JobKind::kRecord || most == 0 || fresh <= most + most / 4) continue;
    running.over_rate_until_ns = std::max(now, running.over_rate_until_ns) + fresh * kSecondNs / most - kSecondNs;
  }
}

void JobTable::AddTo(uint64_t now, Figures* figures) const {
  for (const auto& [id, running] : jobs_) {
    const Job& job = *running.job;
    JobFigures one = FiguresOf(running, now, !job.armed() ? "starting" : figures->paused ? "paused" : "running");
    (job.spec().kind == JobKind::kRecord ? figures->samples : figures->captures) += one.captures;
    figures->dropped += one.dropped;
    figures->jobs.push_back(std::move(one));
  }
  figures->jobs.insert(figures->jobs.end(), ended_.begin(), ended_.end());
}

}  // namespace brink::agent
