// The sources hop and step as the session sees them: the ptrace helper's records, handed into the pipeline.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ptrace/follower.h"
#include "session/source.h"

namespace brink {

struct ExactOptions {
  ptrace::FollowConfig follow;          // the period is the session's
  std::vector<pid_t> tids;              // -t: only these threads; else the session's processes or command
  uint64_t branch_sample_type = 0;      // as the file states it
};

class ExactSource : public StackSource {
 public:
  explicit ExactSource(ExactOptions options) : options_(std::move(options)) {}
  ~ExactSource() override { Stop(); }

  SourceTraits traits() const override;
  Status Prepare(SourceContext& context) override;
  Status Load(SourceContext&) override { return OkStatus(); }
  Status Start(SourceContext& context) override;
  void Stop() override;
  std::vector<StatLine> Report() override;

  // The helper process, for tests.
  pid_t helper_pid() const { return follower_ ? follower_->helper_pid() : -1; }

 private:
  Status Attach(SourceContext& context);
  void Pump(SourceContext& context);
  void DrainInto(SourceContext& context);

  ExactOptions options_;
  std::unique_ptr<ptrace::Follower> follower_;
  std::thread pump_;
  std::atomic<bool> stopping_{false};
  Status failure_;      // written by the pump, read after its end
};

}  // namespace brink
