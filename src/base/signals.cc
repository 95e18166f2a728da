#include "base/signals.h"

#include <cerrno>

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace brink {

RunSignals::RunSignals(std::initializer_list<int> signals) {
  sigemptyset(&set_);
  for (int signal : signals) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
  old_pipe_ = signal(SIGPIPE, SIG_IGN);
  fd_.Reset(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.valid()) return;
  status_ = ErrnoError(errno, "signalfd");
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

RunSignals::~RunSignals() {
  while (Next()) {
  }
  signal(SIGPIPE, old_pipe_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int RunSignals::Next() {
  signalfd_siginfo info;
  return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

int RunSignals::Wait(int milliseconds) {
  struct pollfd wait = {fd_.get(), POLLIN, 0};
  return poll(&wait, 1, milliseconds) > 0 ? Next() : 0;
}

}  // namespace brink
