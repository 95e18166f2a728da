// A context around a core alone, for sources that are loaded without a session.
#pragma once

#include <utility>
#include <vector>

#include "session/core.h"
#include "session/source.h"

namespace brink::testing_support {

class CoreContext : public SourceContext {
 public:
  // `tracepoints`: the session samples them, each third hit.
  explicit CoreContext(BpfCore& core, std::vector<int> cpus = {}, bool tracepoints = false)
      : core_(core), cpus_(std::move(cpus)), tracepoints_(tracepoints) {}
  Status Share(bpf_object* object) override { return core_.Share(object); }
  bool Inject(std::span<const std::byte>) override { return false; }
  const std::vector<pid_t>& target_pids() const override { return none_; }
  pid_t command_pid() const override { return 0; }
  const std::vector<int>& cpus() const override { return cpus_; }
  uint64_t period_ns() const override { return 1'000'000; }
  bool samples_tracepoints() const override { return tracepoints_; }
  uint64_t tracepoint_period() const override { return tracepoints_ ? 3 : 1; }

 private:
  BpfCore& core_;
  const std::vector<pid_t> none_;
  const std::vector<int> cpus_;
  const bool tracepoints_;
};

}  // namespace brink::testing_support
