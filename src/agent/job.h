// One piece of work of the agent: a recording or a snap run, on a thread of its own, steered from outside.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/budget.h"
#include "agent/protocol.h"
#include "base/fd.h"
#include "base/sync.h"
#include "session/control.h"
#include "session/recorder.h"
#include "snap/run.h"

namespace brink::agent {

// What a client's words come to. The functions look things up on this machine: they are called on the job's thread.
struct Recording {
  RecordSpec spec;
  std::unique_ptr<StackSource> source;
  std::vector<std::string> notes;
};
struct Snapping {
  snap::RunRequest request;
  snap::PrintOptions print;
};
// From words to work; parsing happens in the call (main thread), the rest in the result. Injected by the command line,
// which owns the tables of options.
struct Factories {
  std::function<StatusOr<std::function<StatusOr<Recording>()>>(const std::vector<std::string>& words)> recording;
  std::function<StatusOr<std::function<StatusOr<Snapping>()>>(const std::vector<std::string>& words)> snapping;
};

// What jobs tell the main loop. Bounded: captures above are dropped and counted.
struct JobMessage {
  enum class Kind { kArmed, kCapture, kEnded };
  uint64_t job = 0;
  Kind kind = Kind::kCapture;
  std::string json;  // capture: JSON, or text as a JSON string; ended: the result; armed: list of notes
  Status status;     // ended
};

class Mailbox {
 public:
  explicit Mailbox(size_t most_bytes = 16u << 20) : most_bytes_(most_bytes) {}
  Status Open();
  // False: no room for this capture. Other kinds always get in.
  bool Put(JobMessage message);
  std::deque<JobMessage> TakeAll();
  int fd() const { return wake_.get(); }

 private:
  const size_t most_bytes_;
  UniqueFd wake_;
  Mutex mutex_;
  std::deque<JobMessage> messages_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What all jobs share. Any thread.
class SharedBudget {
 public:
  explicit SharedBudget(const Budgets& budgets) : budgets_(budgets), rate_(budgets.max_rate) {}
  const Budgets& budgets() const { return budgets_; }
  bool TakeCapture(uint64_t now_ns);
  uint64_t refused() const;
  Status AcquireFilter(uint64_t job, const std::string& client, uint64_t bits);
  void ReleaseFilter(uint64_t job);
  std::string held_filter() const;
  void AddBytes(uint64_t bytes) { bytes_ += bytes; }
  uint64_t bytes() const { return bytes_; }
  uint64_t bytes_left() const { return bytes_ >= budgets_.max_bytes ? 0 : budgets_.max_bytes - bytes_; }

 private:
  const Budgets budgets_;
  std::atomic<uint64_t> bytes_{0};
  mutable Mutex mutex_;
  RateBudget rate_ ABSL_GUARDED_BY(mutex_);
  FilterArbiter filter_ ABSL_GUARDED_BY(mutex_);
};

struct JobSpec {
  uint64_t id = 0;
  JobKind kind = JobKind::kSnap;
  std::vector<std::string> options;
  std::string client;       // "pid 123 uid 0"
  std::string path;         // file that it writes; "" none
  bool stream = false;      // captures go to the mailbox
  bool text = false, colour = false;
  std::function<void(uint64_t time_ns)> dump;  // called at each capture; may be empty. Job's thread
};

class Job {
 public:
  static StatusOr<std::unique_ptr<Job>> Start(JobSpec spec, const Factories& factories, Mailbox& mailbox, SharedBudget& budget);
  // Ends it in order and waits.
  ~Job();

  const JobSpec& spec() const { return spec_; }
  RunControl& control() { return *control_; }
  void Stop(std::string why);  // main thread
  const std::string& why() const { return why_; }
  bool armed() const { return armed_; }
  uint64_t captures() const { return captures_; }   // captures or samples
  uint64_t dropped() const { return dropped_; }     // captures that nobody could be given
  uint64_t over_rate() const { return over_rate_; } // captures above the budget
  uint64_t bytes() const { return bytes_; }
  uint64_t started_ns() const { return started_ns_; }

 private:
  Job(JobSpec spec, Mailbox& mailbox, SharedBudget& budget) : spec_(std::move(spec)), mailbox_(mailbox), budget_(budget) {}
  void Run(std::function<StatusOr<Recording>()> recording, std::function<StatusOr<Snapping>()> snapping);
  StatusOr<std::string> RunRecording(const std::function<StatusOr<Recording>()>& make);
  StatusOr<std::string> RunSnap(const std::function<StatusOr<Snapping>()>& make);
  Status CheckRate(const Recording& recording) const;
  Status OnCapture(const snap::Capture& capture, const snap::PrintOptions& print, int file);
  void Armed(const std::vector<std::string>& notes);

  const JobSpec spec_;
  Mailbox& mailbox_;
  SharedBudget& budget_;
  std::unique_ptr<RunControl> control_;
  std::string why_;
  uint64_t started_ns_ = 0;
  std::atomic<bool> armed_{false};
  std::atomic<uint64_t> captures_{0}, dropped_{0}, over_rate_{0}, bytes_{0};
  std::thread thread_;
};

// CLOCK_MONOTONIC.
uint64_t NowNs();

}  // namespace brink::agent
