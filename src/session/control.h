// How another thread steers a run (a recording, brink snap) that would otherwise answer signals: the agent's jobs.
#pragma once

#include <atomic>
#include <memory>

#include "base/fd.h"
#include "base/status.h"

namespace brink {

class RunControl {
 public:
  static StatusOr<std::unique_ptr<RunControl>> Make();

  // Any thread. Each makes fd() readable.
  void Stop();                // the orderly end
  void Fire();                // the manual trigger
  void Pause(bool paused);    // nothing is taken while paused
  bool stopped() const { return stop_; }
  bool paused() const { return pause_; }

  // The run's side.
  int fd() const { return wake_.get(); }
  void Clear();               // before the flags are looked at
  bool TakeFire() { return fire_.exchange(false); }

 private:
  RunControl() = default;
  void Wake();
  UniqueFd wake_;
  std::atomic<bool> stop_{false}, fire_{false}, pause_{false};
};

}  // namespace brink
