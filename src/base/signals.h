// The signals that a run answers: blocked while it lasts, and readable from a descriptor.
#pragma once

#include <csignal>
#include <initializer_list>

#include "base/fd.h"

namespace brink {

// Blocks `signals` on the calling thread (and on threads started later) and ignores SIGPIPE; undone at the end, when what
// is still pending is dropped.
class RunSignals {
 public:
  explicit RunSignals(std::initializer_list<int> signals);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  // Why they cannot be read, if so: then they do what they do to any program. Who waits for them must look.
  const Status& status() const { return status_; }
  int fd() const { return fd_.get(); }
  // The next signal that came; 0: none.
  int Next();
  // The next one within so many milliseconds; 0: none.
  int Wait(int milliseconds);

 private:
  sigset_t set_, before_;
  sighandler_t old_pipe_;
  UniqueFd fd_;
  Status status_;
};

}  // namespace brink
