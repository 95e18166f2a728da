// The session behind the flight recorder, and the files that it writes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "agent/flight.h"
#include "agent/job.h"

namespace brink::agent {

class FlightSession {
 public:
  // Makes the session, which runs from here on. `bits` is set to the branch filter that it holds.
  static StatusOr<std::unique_ptr<FlightSession>> Start(const FlightLimits& limits, Recording recording);
  ~FlightSession();

  const FlightLimits& limits() const { return limits_; }
  FlightFacts facts() const { return recorder_.facts(); }
  std::string source() const;
  uint64_t branch_bits() const;
  uint64_t lost() const { return session_->books().samples_lost().records; }
  const std::vector<std::string>& notes() const { return notes_; }

  void Pause(bool paused);
  void Tick() { session_->FollowHotplug(); }
  // Ok while it runs.
  bool failed() const;
  int failed_fd() const { return session_->failed_fd(); }

  // Writes what is held up to now, on a thread of its own; `done` is called from there. One at a time: false while one is
  // being made.
  using Done = std::function<void(StatusOr<uint64_t> samples, uint64_t bytes)>;
  bool Dump(const std::string& path, uint64_t until_ns, uint64_t most_bytes, Done done);

 private:
  FlightSession(const FlightLimits& limits, size_t cpus) : limits_(limits), recorder_(limits, cpus) {}

  const FlightLimits limits_;
  FlightRecorder recorder_;
  FileSpec file_;
  std::vector<std::string> notes_;
  std::unique_ptr<Session> session_;
  bool paused_ = false;
  std::atomic<bool> dumping_{false};
  std::thread thread_;
};

}  // namespace brink::agent
