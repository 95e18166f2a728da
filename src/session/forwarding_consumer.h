// A consumer in front of another one: everything is handed on, unless a derived class does something with it.
#pragma once

#include "pipeline/consumer.h"

namespace brink {

// `next` outlives it. Called on the writer thread only, as every consumer.
class ForwardingConsumer : public Consumer {
 public:
  Status OnSample(const SampleView& sample) override { return next_.OnSample(sample); }
  Status OnPerfRecord(const PerfRecordView& record) override { return next_.OnPerfRecord(record); }
  Status OnTask(const brink_task_event& event) override { return next_.OnTask(event); }
  Status OnRound(uint64_t time_ns) override { return next_.OnRound(time_ns); }
  Status OnLost(LossCause cause, const Loss& loss, uint64_t time_ns) override { return next_.OnLost(cause, loss, time_ns); }
  Settled Settle() override { return next_.Settle(); }
  Status Flush() override { return next_.Flush(); }
  Status Rotate() override { return next_.Rotate(); }
  Status Finish() override { return next_.Finish(); }

 protected:
  explicit ForwardingConsumer(Consumer& next) : next_(next) {}
  Consumer& next_;
};

}  // namespace brink
