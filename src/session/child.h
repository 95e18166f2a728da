// The command of `-- cmd`: forked first, held until the session is armed, then executed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "session/cpu_time.h"

namespace brink {

// Of a wait status, as shells show it: the exit status, or 128 and the signal.
int ShellStatus(int wait_status);

class CommandChild {
 public:
  struct Options {
    bool stdout_to_stderr = false;  // our standard output carries the recording
  };
  // Forks. To be called before any BPF link, map or perf event exists: a child keeps what it inherits open until its
  // exec, and links would stay attached. The child waits for Release and ends by itself when we die before.
  static StatusOr<std::unique_ptr<CommandChild>> Fork(const std::vector<std::string>& argv, const Options& options);
  // A child that has not been released is ended; one that runs is left alone.
  ~CommandChild();

  pid_t pid() const { return pid_; }
  // Readable when the child has ended.
  int pidfd() const { return pidfd_.get(); }

  // Lets the child exec and waits until it has. The error keeps the errno of execvp (ErrnoOf): ENOENT is "not found",
  // anything else "cannot execute".
  Status Release();
  // Reaps: the wait status, and with it the CPU time of the child and all descendants it waited for. Blocks until the
  // child has ended.
  struct End {
    int wait_status = 0;
    CpuTime cpu;
  };
  StatusOr<End> Wait();
  // Reaps at the end of a run; one that is to be `asked` gets SIGTERM and, three seconds later, SIGKILL. The status as
  // shells show it.
  StatusOr<int> Finish(bool asked);
  // Sends a signal, unless the child has been reaped.
  void Signal(int signal);

 private:
  CommandChild() = default;
  pid_t pid_ = -1;
  bool released_ = false, reaped_ = false;
  UniqueFd pidfd_, go_, exec_error_;
  std::string name_;
};

}  // namespace brink
