#include "source/process_judge.h"

#include <algorithm>

#include <absl/container/flat_hash_set.h>

#include "base/thread.h"

namespace brink {
namespace {

constexpr size_t kMaxNotes = 8;

}  // namespace

ProcessJudge::ProcessJudge(WalkTables* tables, ProcessJudgeOptions options, std::function<void(std::unique_ptr<brink_miss>)> judged)
    : tables_(*tables), options_(std::move(options)), return_(std::move(judged)), scanner_(options_.proc_root) {}

ProcessJudge::~ProcessJudge() { Stop(); }

Status ProcessJudge::Start() {
  ASSIGN_OR_RETURN(thread_, StartThread("the thread that judges processes", [this] { Loop(); }));
  return OkStatus();
}

void ProcessJudge::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void ProcessJudge::Enqueue(std::unique_ptr<brink_miss> miss) {
  {
    MutexLock lock(mutex_);
    for (auto& waiting : queue_) {
      if (waiting->asid != miss->asid) continue;
      ++stats_.merged;
      waiting = std::move(miss);
      return;
    }
    if (queue_.size() >= options_.queue_limit) {
      ++stats_.queue_full;
      return;
    }
    queue_.push_back(std::move(miss));
  }
  wake_.NotifyOne();
}

void ProcessJudge::Forget(pid_t tgid) {
  MutexLock lock(mutex_);
  if (ended_.size() < options_.max_processes) ended_.push_back(tgid);
}

void ProcessJudge::Loop() {
  while (true) {
    std::unique_ptr<brink_miss> miss;
    {
      MutexLock lock(mutex_);
      while (!stop_ && queue_.empty()) wake_.Wait(mutex_);
      if (stop_) return;
      miss = std::move(queue_.front());
      queue_.pop_front();
    }
    ForgetEnded();
    Judge(*miss);
    {
      MutexLock lock(mutex_);
      stats_.busy_ns = ThreadCpuNs();
    }
    return_(std::move(miss));
  }
}

void ProcessJudge::ForgetEnded() {
  std::vector<pid_t> ended;
  {
    MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  if (ended.empty()) return;
  const absl::flat_hash_set<pid_t> gone(ended.begin(), ended.end());
  absl::erase_if(judged_, [&](const auto& entry) {
    if (!gone.contains(entry.second.tgid)) return false;
    tables_.RemoveProcess(entry.first);
    return true;
  });
}

// Makes room for one more where there are too many: the oldest goes.
void ProcessJudge::Remember(const brink_miss& miss) {
  while (judged_.size() >= options_.max_processes && !judged_age_.empty()) {
    if (judged_.erase(judged_age_.front()) > 0) tables_.RemoveProcess(judged_age_.front());
    judged_age_.pop_front();
  }
  // Those that ended are in the order of age only.
  if (judged_age_.size() > 2 * options_.max_processes) std::erase_if(judged_age_, [this](uint64_t asid) { return !judged_.contains(asid); });
  if (judged_.insert_or_assign(miss.asid, Judged{static_cast<pid_t>(miss.tgid), miss.vm_stamp}).second) judged_age_.push_back(miss.asid);
}

void ProcessJudge::Judge(const brink_miss& miss) {
  if (auto it = judged_.find(miss.asid); it != judged_.end() && it->second.vm_stamp == miss.vm_stamp) return;
  auto areas = ReadVmAreas(static_cast<pid_t>(miss.tgid), options_.proc_root);
  if (!areas.ok()) {
    MutexLock lock(mutex_);
    ++stats_.gone;
    return;
  }
  auto segments = scanner_.Scan(static_cast<pid_t>(miss.tgid), *areas);
  Verdict verdict = brink::Judge(*areas, segments, options_.vetting);
  verdict.proc.vm_stamp = miss.vm_stamp;
  Remember(miss);
  bool stored = tables_.PutProcess(miss.asid, verdict.proc);
  if (!stored) judged_.erase(miss.asid);  // no place in the table: asked again
  MutexLock lock(mutex_);
  ++stats_.vetted;
  if (!stored) ++stats_.cache_full;
  if (verdict.proc.flags & BRINK_PROC_REFUSED) ++stats_.refused;
  else if (!(verdict.proc.flags & BRINK_PROC_FSBASE)) ++stats_.limited;
  if (!verdict.note.empty() && notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), verdict.note) == notes_.end()) {
    notes_.push_back(verdict.note);
  }
}

void ProcessJudge::AddTo(LiftStats* stats) const {
  MutexLock lock(mutex_);
  stats->merged += stats_.merged;
  stats->queue_full += stats_.queue_full;
  stats->vetted += stats_.vetted;
  stats->cache_full += stats_.cache_full;
  stats->refused += stats_.refused;
  stats->limited += stats_.limited;
  stats->gone += stats_.gone;
  stats->busy_ns += stats_.busy_ns;
}

std::vector<std::string> ProcessJudge::notes() const {
  MutexLock lock(mutex_);
  return notes_;
}

}  // namespace brink
