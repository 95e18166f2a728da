#include "agent/flight_session.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"

namespace brink::agent {

// A dump waits for what is still in the kernel's rings: longer than the drain's rounds, and than a deferred walk.
constexpr uint64_t kDumpWaitNs = 2'000'000'000;

StatusOr<std::unique_ptr<FlightSession>> FlightSession::Start(const FlightLimits& limits, Recording recording) {
  std::unique_ptr<FlightSession> flight(new FlightSession(limits, OnlineCpus().size()));
  RecordSpec& spec = recording.spec;
  flight->notes_ = std::move(recording.notes);
  flight->file_ = spec.file;
  RETURN_IF_ERROR(DescribeEvents(spec, *recording.source, &flight->file_));
  spec.session.enable = true;
  ASSIGN_OR_RETURN(flight->session_, Session::Create(spec.session, std::move(recording.source), flight->recorder_));
  RETURN_IF_ERROR(flight->session_->Arm());
  return flight;
}

FlightSession::~FlightSession() {
  if (session_) (void)session_->Stop();
  if (thread_.joinable()) thread_.join();
}

std::string FlightSession::source() const { return session_->source().traits().name; }

uint64_t FlightSession::branch_bits() const {
  SourceTraits traits = session_->source().traits();
  return traits.id == BRINK_SOURCE_LBR ? traits.branch_sample_type : 0;
}

void FlightSession::Pause(bool paused) {
  if (paused == paused_) return;
  paused_ = paused;
  if (paused) session_->Disable();
  else (void)session_->Enable();
}

bool FlightSession::failed() const {
  pollfd fd = {session_->failed_fd(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0;
}

bool FlightSession::Dump(const std::string& path, uint64_t until_ns, uint64_t most_bytes, Done done) {
  if (dumping_.exchange(true)) return false;
  if (thread_.joinable()) thread_.join();
  session_->Flush();
  auto thread = StartThread("the thread that writes what is held", [this, path, until_ns, most_bytes, done] {
    FlightRecorder::Tape tape = recorder_.Take(until_ns, kDumpWaitNs);
    uint64_t bytes = 0;
    for (const auto& kept : tape.samples) bytes += kept.bytes.size();
    for (const auto& kept : tape.side_band) bytes += kept.bytes.size();
    StatusOr<uint64_t> samples = uint64_t{0};
    if (bytes > most_bytes) {
      samples = ResourceExhausted("the agent's budget of bytes is used up (--max-bytes): this file takes " + std::to_string(bytes));
    } else {
      FileSpec file = file_;
      file.path = path;
      file.pipe = false;
      samples = WriteTape(tape, std::move(file));
    }
    struct stat info = {};
    if (stat(path.c_str(), &info) == 0) bytes = static_cast<uint64_t>(info.st_size);
    else bytes = 0;
    dumping_ = false;
    done(std::move(samples), bytes);
  });
  if (thread.ok()) {
    thread_ = *std::move(thread);
  } else {
    dumping_ = false;
    done(thread.status(), 0);
  }
  return true;
}

}  // namespace brink::agent
