// What the test and the library inside brink share: which call is to fail, and what was seen. Lies in a file that both map.
#pragma once

#include <atomic>
#include <cstdint>

namespace brink::fault {

// Calls of one kind are counted together, over all threads of the process.
enum Kind : uint32_t {
  kNone,
  kWrite,   // write, pwrite, writev, ftruncate, fsync
  kShort,   // the same; half of the bytes are taken
  kThread,  // pthread_create
  kPerf,    // perf_event_open
  kBpf,     // bpf()
  kPoll,    // poll, epoll_wait
  kMemory,  // malloc of 64 KiB or more: buffers, tables
  kMap,     // mmap
  kControl, // ioctl
  kFork,    // fork
  kOpen,    // open for whatever
  kRead,    // read, pread
  kNewFd,   // pipe, eventfd, epoll_create, epoll_ctl, signalfd, dup
  kPtrace,  // ptrace, in brink and in its helpers
  kClock,   // the wall clock jumps
  kKill,    // not a failure: at the Nth call of any kind but clocks the process is killed
  kStop,    // not a failure: at the Nth such call the process gets SIGINT
  kTarget,  // not a failure: at the Nth such call the process of Control::target gets the signal Control::error
  kSlow,    // not a failure: writes take Control::error milliseconds from the Nth on
  kKinds,
};

inline constexpr uint32_t kMostPrograms = 1024;

struct Control {
  // Set by the test.
  uint32_t kind;
  uint64_t nth;     // from 1; 0: count only
  uint32_t always;  // also all later calls of the kind
  int32_t error;    // errno; kClock: seconds of the jump; kTarget: a signal; kSlow: milliseconds
  int32_t target;   // kTarget
  // Set by the library.
  std::atomic<uint64_t> calls[kKinds];
  std::atomic<uint64_t> injected;
  std::atomic<int32_t> pid;
  std::atomic<uint32_t> programs;
  uint32_t program_ids[kMostPrograms];  // ids of the BPF programs that were loaded
};

}  // namespace brink::fault
