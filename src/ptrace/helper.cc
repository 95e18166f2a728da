#include "ptrace/helper.h"

#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ptrace/tracer.h"

namespace brink::ptrace {
namespace {

// A terminal's or an administrator's farewell is meant for the collector; the helper goes when that is gone.
void BecomeDeaf() {
  ::setsid();
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU}) {
    ::signal(signal, SIG_IGN);
  }
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGIO, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  ::sigaddset(&set, SIGIO);
  ::sigprocmask(SIG_SETMASK, &set, nullptr);
  ::prctl(PR_SET_NAME, "brink-ptrace");
  // Its death would be the death of its tracees. Without the right to say so it stays as it is.
  UniqueFd oom(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (oom.valid()) WriteAll(oom.get(), "-1000", 5).IgnoreError();
}

// Nothing of the collector may live on here; returns the new number of `control`.
int DropDescriptors(int control) {
  int null = ::open("/dev/null", O_RDWR);
  for (int fd : {0, 1, 2}) ::dup2(null, fd);
  ::dup2(control, 3);
  ::syscall(SYS_close_range, 4u, ~0u, 0u);
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  ::fcntl(3, F_SETOWN, ::getpid());
  ::fcntl(3, F_SETFL, O_NONBLOCK | O_ASYNC);
  return 3;
}

}  // namespace

void RunHelper(const FollowConfig& config, SharedRing* ring, int control) {
  BecomeDeaf();  // first: a SIGIO that is not blocked yet would be the end
  control = DropDescriptors(control);
  Tracer(config, ring, control).Run();
  ::_exit(0);
}

}  // namespace brink::ptrace
