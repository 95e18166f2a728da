// Judges address spaces before anything of them is walked: what may not be read, whose segment bases are not known
// (source/vetting.h). Takes the misses that walks report for want of a judgement.
//
// Threads: Enqueue, Forget, AddTo and notes from any; a thread of its own, between Start and Stop, reads all code of a process
// once. Judge on that thread, or on the caller's where Start was not called.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "base/status.h"
#include "base/sync.h"
#include "brink/abi/walk.h"
#include "source/segment_scan.h"
#include "source/vetting.h"
#include "source/walk_tables.h"

namespace brink {

struct ProcessJudgeOptions {
  VettingOptions vetting;
  size_t queue_limit = 512;     // processes waiting
  size_t max_processes = 4096;  // judged address spaces remembered
  std::string proc_root = "/proc";
};

class ProcessJudge {
 public:
  // `judged`: gets each miss back on the thread that judges: the code that it brought is what its next walk needs.
  ProcessJudge(WalkTables* tables, ProcessJudgeOptions options, std::function<void(std::unique_ptr<brink_miss>)> judged);
  ~ProcessJudge();

  Status Start();
  void Stop();
  // Each process waits once, with what was last said of it.
  void Enqueue(std::unique_ptr<brink_miss> miss);
  void Judge(const brink_miss& miss);
  // The process ended: its judgement is forgotten.
  void Forget(pid_t tgid);

  // Adds its own counts.
  void AddTo(LiftStats* stats) const;
  // Notes about address spaces that are refused or limited, each once; at most a few.
  std::vector<std::string> notes() const;

 private:
  void Loop();
  void ForgetEnded();
  void Remember(const brink_miss& miss);

  WalkTables& tables_;
  const ProcessJudgeOptions options_;
  const std::function<void(std::unique_ptr<brink_miss>)> return_;

  // Of the thread that judges.
  SegmentScanner scanner_;
  struct Judged {
    pid_t tgid;
    uint64_t vm_stamp;
  };
  absl::flat_hash_map<uint64_t, Judged> judged_;  // by asid
  std::deque<uint64_t> judged_age_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::unique_ptr<brink_miss>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<pid_t> ended_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  LiftStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace brink
