#include "agent/job.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "base/strings.h"
#include "base/thread.h"
#include "session/report.h"

namespace brink::agent {

using nlohmann::ordered_json;

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Status Mailbox::Open() {
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wake_.valid() ? OkStatus() : ErrnoError(errno, "eventfd");
}

bool Mailbox::Put(JobMessage message) {
  {
    MutexLock lock(mutex_);
    if (message.kind == JobMessage::Kind::kCapture && bytes_ + message.json.size() > most_bytes_) return false;
    bytes_ += message.json.size();
    messages_.push_back(std::move(message));
  }
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(wake_.get(), &one, sizeof(one));
  return true;
}

std::deque<JobMessage> Mailbox::TakeAll() {
  uint64_t count;
  [[maybe_unused]] ssize_t n = read(wake_.get(), &count, sizeof(count));
  MutexLock lock(mutex_);
  bytes_ = 0;
  return std::exchange(messages_, {});
}

bool SharedBudget::TakeCapture(uint64_t now_ns) {
  MutexLock lock(mutex_);
  return rate_.Take(now_ns);
}

uint64_t SharedBudget::refused() const {
  MutexLock lock(mutex_);
  return rate_.refused();
}

Status SharedBudget::AcquireFilter(uint64_t job, const std::string& client, uint64_t bits) {
  MutexLock lock(mutex_);
  return filter_.Acquire(job, client, bits);
}

void SharedBudget::ReleaseFilter(uint64_t job) {
  MutexLock lock(mutex_);
  filter_.Release(job);
}

std::string SharedBudget::held_filter() const {
  MutexLock lock(mutex_);
  return filter_.Held();
}

StatusOr<std::unique_ptr<Job>> Job::Start(JobSpec spec, const Factories& factories, Mailbox& mailbox, SharedBudget& budget) {
  std::function<StatusOr<Recording>()> recording;
  std::function<StatusOr<Snapping>()> snapping;
  if (spec.kind == JobKind::kRecord) {
    ASSIGN_OR_RETURN(recording, factories.recording(spec.options));
  } else {
    ASSIGN_OR_RETURN(snapping, factories.snapping(spec.options));
  }
  std::unique_ptr<Job> job(new Job(std::move(spec), mailbox, budget));
  ASSIGN_OR_RETURN(job->control_, RunControl::Make());
  job->started_ns_ = NowNs();
  ASSIGN_OR_RETURN(job->thread_, StartThread("the job's thread", [self = job.get(), recording = std::move(recording), snapping = std::move(snapping)] { self->Run(recording, snapping); }));
  return job;
}

Job::~Job() {
  control_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Job::Stop(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  control_->Stop();
}

void Job::Run(std::function<StatusOr<Recording>()> recording, std::function<StatusOr<Snapping>()> snapping) {
  auto result = spec_.kind == JobKind::kRecord ? RunRecording(recording) : RunSnap(snapping);
  budget_.ReleaseFilter(spec_.id);
  mailbox_.Put({.job = spec_.id, .kind = JobMessage::Kind::kEnded, .json = result.ok() ? *result : "null", .status = result.status()});
}

void Job::Armed(const std::vector<std::string>& notes) {
  armed_ = true;
  mailbox_.Put({.job = spec_.id, .kind = JobMessage::Kind::kArmed, .json = AsciiJson(ordered_json(notes)), .status = {}});
}

// Samples a second that were asked for, where that can be known.
Status Job::CheckRate(const Recording& recording) const {
  const uint64_t most = budget_.budgets().max_rate;
  const SessionSpec& session = recording.spec.session;
  const bool clock = session.events.size() == 1 && session.events[0].is_clock();
  const uint64_t frequency = session.frequency ? session.frequency : clock && session.period ? 1'000'000'000 / session.period : 0;
  const size_t cpus = session.target.cpus.empty() ? OnlineCpus().size() : session.target.cpus.size();
  if (most == 0 || frequency * cpus <= most) return OkStatus();
  return ResourceExhausted(absl::StrFormat("%d samples a second on %d CPUs are more than the agent's budget of %d (--max-rate): ask for at most -F %d", frequency, cpus, most, most / cpus));
}

StatusOr<std::string> Job::RunRecording(const std::function<StatusOr<Recording>()>& make) {
  ASSIGN_OR_RETURN(Recording recording, make());
  RecordSpec& spec = recording.spec;
  RETURN_IF_ERROR(CheckRate(recording));
  if (recording.source->traits().id == BRINK_SOURCE_LBR) {
    RETURN_IF_ERROR(budget_.AcquireFilter(spec_.id, spec_.client, recording.source->traits().branch_sample_type));
  }
  spec.file.path = spec_.path;
  const uint64_t left = budget_.bytes_left();
  if (left == 0) return ResourceExhausted("the agent's budget of bytes is used up (--max-bytes)");
  spec.file.max_size = spec.file.max_size ? std::min(spec.file.max_size, left) : left;
  spec.control = control_.get();
  spec.armed = [&](Session&) { Armed(recording.notes); };
  uint64_t told = 0;
  auto account = [&](uint64_t bytes) {
    budget_.AddBytes(bytes - told);
    bytes_ = told = bytes;
  };
  spec.progress = [&](const Session& session, const FileConsumer& file) {
    captures_ = session.books().written.records;
    account(file.bytes());
  };
  ASSIGN_OR_RETURN(RecordResult result, Record(spec, std::move(recording.source)));
  captures_ = result.books.written.records;
  account(result.bytes);
  result.notes.insert(result.notes.begin(), recording.notes.begin(), recording.notes.end());
  RETURN_IF_ERROR(result.consumer);
  return ReportJson(result);
}

Status Job::OnCapture(const snap::Capture& capture, const snap::PrintOptions& print, int file) {
  if (!budget_.TakeCapture(NowNs())) {
    ++over_rate_;
    return OkStatus();
  }
  ++captures_;
  if (spec_.dump) spec_.dump(capture.head.time_ns);
  if (file >= 0) {
    std::string line = snap::CaptureJson(capture, print) + "\n";
    if (line.size() > budget_.bytes_left()) return ResourceExhausted("the agent's budget of bytes is used up (--max-bytes)");
    RETURN_IF_ERROR(WriteAll(file, line.data(), line.size()));
    budget_.AddBytes(line.size());
    bytes_ += line.size();
  }
  if (!spec_.stream) return OkStatus();
  std::string json = spec_.text ? AsciiJson(ordered_json(snap::CaptureText(capture, print))) : snap::CaptureJson(capture, print);
  if (!mailbox_.Put({.job = spec_.id, .kind = JobMessage::Kind::kCapture, .json = std::move(json), .status = {}})) ++dropped_;
  return OkStatus();
}

StatusOr<std::string> Job::RunSnap(const std::function<StatusOr<Snapping>()>& make) {
  ASSIGN_OR_RETURN(Snapping work, make());
  snap::RunRequest& request = work.request;
  work.print.colour = spec_.colour;
  UniqueFd file;
  if (!spec_.path.empty()) {
    ASSIGN_OR_RETURN(file, OpenFile(spec_.path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND));
  }
  // The kernel side keeps the budget too, so that a storm costs next to nothing.
  const uint64_t most = budget_.budgets().max_rate;
  if (most) request.snap.limit = request.snap.limit ? std::min(request.snap.limit, most) : most;
  request.control = control_.get();
  request.admit = [&](const snap::SnapSource& source) { return budget_.AcquireFilter(spec_.id, spec_.client, source.branch_flags()); };
  request.armed = [&](const std::vector<std::string>& notes) { Armed(notes); };
  request.print = [&](const snap::Capture& capture) { return OnCapture(capture, work.print, file.get()); };
  ASSIGN_OR_RETURN(snap::RunResult result, snap::Run(std::move(request)));
  RETURN_IF_ERROR(result.consumer);
  ordered_json json = {{"captures", captures_.load()}, {"over_rate", over_rate_.load()}, {"dropped", dropped_.load()}, {"lost", result.books.samples_lost().records},
                       {"detach_ns", result.detach_ns}, {"notes", result.notes}, {"triggers", ordered_json::object()}};
  for (const StatLine& line : result.stats) json["triggers"][line.name] = line.value;
  return AsciiJson(json);
}

}  // namespace brink::agent
