// A perf event of this thread with its ring, just enough for the prober: ip and branch stack of each sample.
#pragma once

#include <functional>
#include <span>

#include "base/branch.h"
#include "base/fd.h"
#include "base/status.h"
#include "kernel/perf_event.h"

namespace brink::probe {

class SampleRing {
 public:
  // Opens `attr` on the calling thread; the sample type is set to IP, and BRANCH_STACK where flags ask for it (without
  // HW_INDEX in the layout). The event starts disabled.
  static StatusOr<SampleRing> Open(perf_event_attr attr);
  SampleRing(SampleRing&& other) noexcept;
  SampleRing& operator=(SampleRing&&) = delete;
  ~SampleRing();

  int fd() const { return fd_.get(); }
  // Calls for each sample since the last drain. The span lives as long as the call.
  using OnSample = std::function<void(uint64_t ip, std::span<const BranchEntry> stack)>;
  int Drain(const OnSample& on_sample);

 private:
  SampleRing() = default;
  UniqueFd fd_;
  char* base_ = nullptr;
  bool branches_ = false, hw_index_ = false;
};

}  // namespace brink::probe
