// The agent's jobs, and which client waits for what of them. Main thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/connections.h"
#include "agent/job.h"
#include "agent/metrics.h"

namespace brink::agent {

class JobTable {
 public:
  struct Order {
    uint64_t client = 0;       // who is answered; 0: the agent itself
    int64_t request = 0;       // the client's number of it
    std::string client_name;
    JobKind kind = JobKind::kSnap;
    std::vector<std::string> options;
    bool stream = false;       // captures go to the client; the job ends with it
    bool text = false, colour = false;
    // The file that a job of this number writes; may be empty: none.
    std::function<StatusOr<std::string>(uint64_t job)> path;
    std::function<void(uint64_t time_ns)> dump;  // JobSpec
    bool paused = false;       // begins so
  };

  JobTable(const Factories& factories, const Budgets& budgets, Mailbox& mailbox, SharedBudget& budget, Connections& connections, Figures& totals)
      : factories_(factories), budgets_(budgets), mailbox_(mailbox), budget_(budget), connections_(connections), totals_(totals) {}

  // The client is answered once the job is armed, or has failed. `own`: jobs of the agent's own, which do not count.
  Status Start(Order order, size_t own);
  // The client is answered at the job's end.
  Status Stop(uint64_t client, int64_t request, uint64_t job);
  // Manual triggers of the job capture now.
  Status Fire(uint64_t job);
  // What streams to a client that is gone ends; what it started stays.
  void ForgetClient(uint64_t client);
  void StopAll(const std::string& why);
  // What jobs have said: on to their clients.
  void Take(const JobMessage& message);
  // Each tick. `over`: the budget of bytes is used up.
  void Hold(uint64_t now, bool paused, bool over);
  // Each second: recordings whose rate nobody could know before are held to the budget.
  void HoldToRate(uint64_t now);

  bool empty() const { return jobs_.empty(); }
  // Adds the jobs, those that ended last, and their sums.
  void AddTo(uint64_t now, Figures* figures) const;

 private:
  // A job and who waits for it.
  struct Running {
    std::unique_ptr<Job> job;
    uint64_t client = 0;   // of a streaming job, and of the answer that is owed; 0 nobody
    int64_t request = 0;
    bool answered = false; // the start's answer has gone out
    uint64_t dropped = 0;  // captures that the client's connection had no room for
    uint64_t samples_told = 0, over_rate_until_ns = 0;
    std::vector<std::pair<uint64_t, int64_t>> stoppers;  // client, request: answered at the end
  };

  void OnArmed(const JobMessage& message, Running* running);
  void OnEnded(const JobMessage& message);
  static JobFigures FiguresOf(const Running& running, uint64_t now, std::string state);

  const Factories& factories_;
  const Budgets& budgets_;
  Mailbox& mailbox_;
  SharedBudget& budget_;
  Connections& connections_;
  Figures& totals_;
  std::map<uint64_t, Running> jobs_;
  std::deque<JobFigures> ended_;
  uint64_t next_ = 1;
};

}  // namespace brink::agent
