#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "target.h"

namespace {

constexpr long kWaitNs = 100'000;

// User-mode work between two calls, so that ticks fall close to their beginning and end.
__attribute__((noinline)) uint64_t Spin(uint64_t n) {
  uint64_t x = n;
  for (int i = 0; i < 20'000; ++i) x = x * 6364136223846793005ull + (x >> 60 ? 1 : 3);
  return x;
}

}  // namespace

int Calls(int count) {
  int epoll = ::epoll_create1(0);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) return 1;
  struct timeval patience = {0, kWaitNs / 1000};
  ::setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  int semaphore = ::semget(IPC_PRIVATE, 1, 0600);
  sigset_t usr;
  ::sigemptyset(&usr);
  ::sigaddset(&usr, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &usr, nullptr);
  int interrupted[4] = {}, odd[4] = {};
  volatile uint64_t keep = 0;
  auto note = [&](int which, long result, int expected) {
    if (result >= 0) ++odd[which];
    else if (errno == EINTR) ++interrupted[which];
    else if (errno != expected) ++odd[which];
  };
  for (int i = 0; i < count; ++i) {
    keep = Spin(keep);
    struct epoll_event event;
    if (::epoll_wait(epoll, &event, 1, i % 16 == 0) != 0) ++interrupted[0];
    char byte;
    note(1, ::recv(pair[0], &byte, 1, 0), EAGAIN);
    struct timespec wait = {0, kWaitNs};
    note(2, ::sigtimedwait(&usr, nullptr, &wait), EAGAIN);
    struct sembuf take = {0, -1, 0};
    note(3, ::semtimedop(semaphore, &take, 1, &wait), EAGAIN);
  }
  ::semctl(semaphore, 0, IPC_RMID);
  const char* const names[] = {"epoll_wait", "recv", "sigtimedwait", "semtimedop"};
  for (int i = 0; i < 4; ++i) std::printf("%s: %d calls, EINTR %d, odd %d\n", names[i], count, interrupted[i], odd[i]);
  return 0;
}
