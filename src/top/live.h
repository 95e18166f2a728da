// A recording that is still being made, as tables: a thread reads the stream and counts, the owner takes snapshots.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/sync.h"
#include "report/loader.h"
#include "top/view.h"

namespace brink::top {

class Live : public Model {
 public:
  // `path` as Reader::Open takes it. The thread starts at once; opening waits for the stream's first bytes, so it happens
  // there too. `options` outlives this.
  Live(std::string path, const report::LoadOptions& options);
  ~Live() override;

  // Reading stops where it is, even if the stream goes on. The last snapshot stays.
  void Stop();

  // Readable when the stream has ended.
  int ended_fd() const { return ended_.get(); }
  bool ended() const { return finished_; }
  // Why reading ended early; ok at the orderly end. Once ended.
  brink::Status status() const;

  // Makes what has been counted what the tables show. `forget`: counts begin anew behind it.
  void Snapshot(bool forget);
  void Reset();
  // Of the last snapshot; samples, branches and losses since the start.
  Facts facts() const { return facts_; }
  // Losses and damage as report has them, once ended.
  const report::RecordingFacts& recording() const { return program_.facts; }

  report::Table TableOf(const report::TableKind& kind) override;
  StatusOr<std::vector<std::string>> Annotate(const std::string& function) override;

 private:
  void Read();
  void Note(brink::Status status);

  const std::string path_;
  const report::LoadOptions& options_;
  UniqueFd ended_, stop_;
  std::atomic<bool> finished_ = false;
  mutable Mutex mutex_;
  // The thread changes these under the lock; between Read and Apply of the loader nobody holds it.
  report::Program program_;
  std::unique_ptr<report::ProgramLoader> loader_;
  brink::Status status_ ABSL_GUARDED_BY(mutex_);
  // Owner's side.
  Facts facts_;
  uint64_t forgotten_samples_ = 0, forgotten_branches_ = 0;  // counted before the last reset
  uint64_t jit_round_ = 0;
  std::chrono::steady_clock::time_point last_time_;
  uint64_t last_samples_ = 0;
  std::thread thread_;
};

}  // namespace brink::top
