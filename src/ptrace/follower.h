// The collector's side of the ptrace helper: starts it, tells it what to follow, receives its records.
//
// All ptrace work is done by a small process of its own (session of its own, deaf to INT, TERM and HUP, no descriptors
// of the collector), because the death of a tracer kills its tracees. When the collector is gone, however that came
// about, the helper cleans every thread and lets it go. Killing the helper itself with SIGKILL does kill the targets.
//
// Not thread-safe: one thread attaches, drains and leaves.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "ptrace/protocol.h"
#include "ptrace/ring.h"

namespace brink::ptrace {

class Follower {
 public:
  static constexpr size_t kRingBytes = 8u << 20;

  // Forks the helper. Call it before perf events, BPF maps or links exist: they would live on in the helper until it
  // has closed them. Fails where the architecture is not supported.
  static StatusOr<std::unique_ptr<Follower>> Start(const FollowConfig& config, size_t ring_bytes = kRingBytes);
  ~Follower();  // leaves
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // How many threads were attached. Errors name the thread and the reason.
  StatusOr<uint32_t> AttachThread(pid_t tid);
  StatusOr<uint32_t> AttachProcess(pid_t pid);
  // `pid` waits to call exec and is followed from there on. Where the Yama module restricts ptrace, the child allows it
  // first: prctl(PR_SET_PTRACER, helper_pid()).
  Status AttachCommand(pid_t pid);

  // Readable when the helper has news or much data; poll it with a timeout, and Drain in any case.
  int fd() const { return socket_.get(); }
  // Reads news and hands out all records that are there, oldest first (struct brink_sample and what follows it). UNAVAILABLE
  // when the helper was killed and nothing is left to hand out.
  StatusOr<size_t> Drain(const SharedRing::Take& take);
  // The last followed thread has ended.
  bool all_gone() const { return all_gone_; }

  // Detaches from everything and waits until the helper has ended, at most `patience_ms`: a thread that blocks SIGTRAP
  // with one of our ticks queued keeps the helper until it unblocks it. Drain once more afterwards.
  Status Leave(int patience_ms = 3000);

  uint64_t counter(uint32_t which) const { return ring_->counter(which); }
  pid_t helper_pid() const { return helper_; }
  // CPU time of the helper; known after Leave.
  uint64_t helper_cpu_ns() const { return helper_cpu_ns_; }

 private:
  Follower() = default;
  StatusOr<uint32_t> Ask(MessageType type, pid_t pid);
  bool Receive(int timeout_ms, Message* message);  // false: nothing came, or the helper is gone
  void Note(const Message& message);

  std::unique_ptr<SharedRing> ring_;
  UniqueFd socket_;
  pid_t helper_ = -1;
  uint64_t helper_cpu_ns_ = 0;
  bool all_gone_ = false;
  bool left_ = false;
  bool helper_gone_ = false;
};

}  // namespace brink::ptrace
