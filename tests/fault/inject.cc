// Preloaded into brink: counts the calls that can fail for reasons outside of it, and makes one of them fail. brink itself
// knows nothing of this. Calls that the C library makes of its own (stdio, the loader) are not seen.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "control.h"

namespace {

using brink::fault::Control;
using brink::fault::Kind;

Control* control = nullptr;
pid_t owner = 0;  // in what it forks only ptrace counts

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) \
  static const auto next = Next<decltype(&name)>(#name)

bool Chosen(uint64_t call) { return control->nth != 0 && (call == control->nth || (control->always && call > control->nth)); }

// True if this call of the kind is to fail.
bool Fails(Kind kind) {
  if (!control) return false;
  const bool own = getpid() == owner;
  if (!own && kind != brink::fault::kPtrace) return false;
  const uint64_t call = ++control->calls[kind];
  if (kind == brink::fault::kWrite) {
    ++control->calls[brink::fault::kShort];
    ++control->calls[brink::fault::kSlow];
    if (control->kind == brink::fault::kSlow && Chosen(call)) {
      ++control->injected;
      usleep(static_cast<useconds_t>(control->error) * 1000);
    }
  }
  if (own && kind != brink::fault::kClock && kind != brink::fault::kMemory) {
    const uint64_t any = ++control->calls[brink::fault::kKill];
    control->calls[brink::fault::kStop] = control->calls[brink::fault::kTarget] = any;
    if (control->kind == brink::fault::kTarget && any == control->nth) {
      ++control->injected;
      kill(control->target, control->error);
    }
    if (control->kind == brink::fault::kKill && any == control->nth) {
      ++control->injected;
      raise(SIGKILL);
    }
    if (control->kind == brink::fault::kStop && any == control->nth) {
      ++control->injected;
      kill(getpid(), SIGINT);
    }
  }
  if (control->kind != kind || !Chosen(call)) return false;
  ++control->injected;
  errno = control->error;
  return true;
}

// How much of a write is taken: all, or half of the Nth.
size_t Taken(size_t size) {
  if (!control || control->kind != brink::fault::kShort || getpid() != owner || !Chosen(control->calls[brink::fault::kShort]) || size < 2) return size;
  ++control->injected;
  return size / 2;
}

void RememberProgram(int fd) {
  bpf_prog_info info = {};
  bpf_attr attr = {};
  attr.info.bpf_fd = static_cast<uint32_t>(fd);
  attr.info.info_len = sizeof(info);
  attr.info.info = reinterpret_cast<uint64_t>(&info);
  static const auto next = Next<long (*)(long, ...)>("syscall");
  const int before = errno;
  if (next(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) == 0) {
    const uint32_t at = control->programs++;
    if (at < brink::fault::kMostPrograms) control->program_ids[at] = info.id;
  }
  errno = before;
}

__attribute__((constructor)) void Begin() {
  const char* path = getenv("BRINK_FAULT_FILE");
  if (!path) return;
  static const auto raw_open = Next<int (*)(const char*, int, ...)>("open");
  static const auto raw_map = Next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  const int fd = raw_open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* at = raw_map(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  static const auto raw_close = Next<int (*)(int)>("close");
  raw_close(fd);
  if (at == MAP_FAILED) return;
  // What brink starts is not to be disturbed.
  unsetenv("LD_PRELOAD");
  unsetenv("BRINK_FAULT_FILE");
  owner = getpid();
  control = static_cast<Control*>(at);
  control->pid = owner;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  NEXT(write);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, data, Taken(size));
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  NEXT(pwrite);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, data, Taken(size), at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  NEXT(pwrite64);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, data, Taken(size), at);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  NEXT(writev);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, parts, count);
}
int ftruncate(int fd, off_t size) noexcept {
  NEXT(ftruncate);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, size);
}
int ftruncate64(int fd, off64_t size) noexcept {
  NEXT(ftruncate64);
  return Fails(brink::fault::kWrite) ? -1 : next(fd, size);
}
int fsync(int fd) {
  NEXT(fsync);
  return Fails(brink::fault::kWrite) ? -1 : next(fd);
}
int fdatasync(int fd) {
  NEXT(fdatasync);
  return Fails(brink::fault::kWrite) ? -1 : next(fd);
}

ssize_t read(int fd, void* data, size_t size) {
  NEXT(read);
  return Fails(brink::fault::kRead) ? -1 : next(fd, data, size);
}
ssize_t pread(int fd, void* data, size_t size, off_t at) {
  NEXT(pread);
  return Fails(brink::fault::kRead) ? -1 : next(fd, data, size, at);
}
ssize_t pread64(int fd, void* data, size_t size, off64_t at) {
  NEXT(pread64);
  return Fails(brink::fault::kRead) ? -1 : next(fd, data, size, at);
}

#define OPENS(name)                                       \
  int name(const char* path, int flags, ...) {            \
    static const auto next = Next<int (*)(const char*, int, ...)>(#name); \
    va_list more;                                         \
    va_start(more, flags);                                \
    const int mode = va_arg(more, int);                   \
    va_end(more);                                         \
    return Fails(brink::fault::kOpen) ? -1 : next(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name)                                    \
  int name(int folder, const char* path, int flags, ...) { \
    static const auto next = Next<int (*)(int, const char*, int, ...)>(#name); \
    va_list more;                                         \
    va_start(more, flags);                                \
    const int mode = va_arg(more, int);                   \
    va_end(more);                                         \
    return Fails(brink::fault::kOpen) ? -1 : next(folder, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* data) noexcept {
  NEXT(pthread_create);
  return Fails(brink::fault::kThread) ? control->error : next(thread, attributes, body, data);
}

int poll(pollfd* fds, nfds_t count, int timeout) {
  NEXT(poll);
  return Fails(brink::fault::kPoll) ? -1 : next(fds, count, timeout);
}
int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  NEXT(epoll_wait);
  return Fails(brink::fault::kPoll) ? -1 : next(fd, events, most, timeout);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  NEXT(mmap);
  return Fails(brink::fault::kMap) ? MAP_FAILED : next(at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) noexcept {
  NEXT(mmap64);
  return Fails(brink::fault::kMap) ? MAP_FAILED : next(at, size, protection, flags, fd, offset);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  static const auto next = Next<int (*)(int, unsigned long, ...)>("ioctl");
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  // Switching a perf event off cannot fail.
  if (request != PERF_EVENT_IOC_DISABLE && Fails(brink::fault::kControl)) return -1;
  return next(fd, request, argument);
}

pid_t fork() noexcept {
  NEXT(fork);
  return Fails(brink::fault::kFork) ? -1 : next();
}

int pipe2(int ends[2], int flags) noexcept {
  NEXT(pipe2);
  return Fails(brink::fault::kNewFd) ? -1 : next(ends, flags);
}
int eventfd(unsigned int count, int flags) noexcept {
  NEXT(eventfd);
  return Fails(brink::fault::kNewFd) ? -1 : next(count, flags);
}
int epoll_create1(int flags) noexcept {
  NEXT(epoll_create1);
  return Fails(brink::fault::kNewFd) ? -1 : next(flags);
}
int epoll_ctl(int fd, int what, int about, epoll_event* event) noexcept {
  NEXT(epoll_ctl);
  return Fails(brink::fault::kNewFd) ? -1 : next(fd, what, about, event);
}
int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  NEXT(signalfd);
  return Fails(brink::fault::kNewFd) ? -1 : next(fd, mask, flags);
}
int dup(int fd) noexcept {
  NEXT(dup);
  return Fails(brink::fault::kNewFd) ? -1 : next(fd);
}

long ptrace(__ptrace_request request, ...) noexcept {
  static const auto next = Next<long (*)(__ptrace_request, ...)>("ptrace");
  va_list more;
  va_start(more, request);
  const pid_t pid = va_arg(more, pid_t);
  void* at = va_arg(more, void*);
  void* data = va_arg(more, void*);
  va_end(more);
  return Fails(brink::fault::kPtrace) ? -1 : next(request, pid, at, data);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  NEXT(clock_gettime);
  const int status = next(clock, time);
  if (status == 0 && clock == CLOCK_REALTIME && Fails(brink::fault::kClock)) time->tv_sec += control->error;
  return status;
}
time_t time(time_t* at) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

long syscall(long number, ...) noexcept {
  static const auto next = Next<long (*)(long, ...)>("syscall");
  va_list more;
  va_start(more, number);
  long words[6];
  for (long& word : words) word = va_arg(more, long);
  va_end(more);
  if (number == SYS_bpf && Fails(brink::fault::kBpf)) return -1;
  if (number == SYS_perf_event_open && Fails(brink::fault::kPerf)) return -1;
  const long result = next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  if (control && number == SYS_bpf && words[0] == BPF_PROG_LOAD && result >= 0) RememberProgram(static_cast<int>(result));
  return result;
}

#ifdef BRINK_FAULT_MEMORY
// Not where a sanitizer has its own allocator.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* at, size_t size);
constexpr size_t kLarge = 64 << 10;

void* malloc(size_t size) { return size >= kLarge && Fails(brink::fault::kMemory) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return (size >= kLarge || count >= kLarge || count * size >= kLarge) && Fails(brink::fault::kMemory) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* at, size_t size) { return size >= kLarge && Fails(brink::fault::kMemory) ? nullptr : __libc_realloc(at, size); }
#endif

}  // extern "C"
#pragma GCC visibility pop
