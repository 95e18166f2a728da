// Tracing around a measurement, in an instance of tracefs of its own, so that nothing of the user's tracing changes.
//
// Only tracers that refuse instances are set at the top level; the files touched there are listed, saved and put back.
// Whatever ends this process, kill -9 included, a small guard process cleans up; what a killed guard leaves, the next
// start does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "latency/thread.h"

namespace brink::latency {

struct TraceRequest {
  std::string tracer;                // "" = none
  std::vector<std::string> events;   // "sched:sched_switch", "irq"; with a tracer or marks and none given: kDefaultEvents
  std::vector<std::string> options;  // "noprint-parent"
  bool marks = false;                // --tracemark
  bool own_trace = true;             // false: mark and stop the top-level trace, which the user has started
  std::string file = "brink-latency.trace";
  bool any() const { return marks || !tracer.empty() || !events.empty(); }
};

class Trace : public BreakHook {
 public:
  // Before any thread is started: the guard is a fork.
  static StatusOr<std::unique_ptr<Trace>> Start(const TraceRequest& request, const std::string& root);
  ~Trace() override;

  // Mark, then stop; two writes to descriptors that are open already.
  void Hit(pid_t tid, int64_t value, int64_t limit) override;
  void Mark(const std::string& text);
  bool hit() const { return hit_; }
  // Copies the trace to the file asked for. At the end of a run.
  Status Save();
  // Files of the top level that were changed, "" none.
  const std::vector<std::string>& touched() const { return touched_; }

 private:
  Trace() = default;
  Status Set(const TraceRequest& request, const std::string& root);
  Status SetTopLevel(const TraceRequest& request, const std::string& root);
  Status Guard();
  std::string folder_;      // of the instance, or the root
  std::string note_;        // where the clean-up is written down
  std::string file_;
  std::vector<std::string> touched_;
  bool own_instance_ = false;
  bool hit_ = false;
  UniqueFd marker_, on_, guard_pipe_;
  pid_t guard_ = 0;
};

// Cleans up after runs whose process and guard are gone. The number of instances and files.
int RestoreTraces(const std::string& root);

}  // namespace brink::latency
