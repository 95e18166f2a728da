// Who takes what the pipeline brings: the file writer, or a live view (top, cfi, snap).
#pragma once

#include "base/status.h"
#include "pipeline/item.h"

namespace brink {

// All calls come from the writer thread, one at a time. Views end with the call.
//
// Order: records of one ring come in that ring's order; across rings by time only within rounds: OnRound(t) says that
// everything older than t has been handed over, so whoever needs order sorts what it got and lets go what is older.
//
// Consumers that gather records before they write them say in Settle, which follows each buffer, what became of them.
// An error is remembered: the session stops in order, nothing but Settle and Finish is called any more, and what
// arrives until then is counted as lost (LossCause::kWriter).
struct Settled {
  Loss lost;      // samples taken since the last Settle that did not get through after all (ABI record bytes)
  Status status;  // not ok: the session is to stop
};

class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual Status OnSample(const SampleView& sample) = 0;
  // mmap2, comm, fork, exit, ksymbol, bpf_event, cgroup, namespaces: live from the kernel or synthesised from /proc
  // (then with time 0, before any sample).
  virtual Status OnPerfRecord(const PerfRecordView& record) = 0;
  virtual Status OnTask(const brink_task_event& /*event*/) { return OkStatus(); }
  virtual Status OnRound(uint64_t /*time_ns*/) { return OkStatus(); }
  virtual Status OnLost(LossCause /*cause*/, const Loss& /*loss*/, uint64_t /*time_ns*/) { return OkStatus(); }
  // The end of a buffer.
  virtual Settled Settle() { return {}; }
  // Everything handed over so far becomes readable to others.
  virtual Status Flush() { return OkStatus(); }
  // Finish this file and go on in the next.
  virtual Status Rotate() { return OkStatus(); }
  // The orderly end; also called after an error, to save what can be saved.
  virtual Status Finish() = 0;
};

}  // namespace brink
