// One stack in the making: the branches that follow the place where it began, oldest first, and its way into the ring.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/branch.h"
#include "brink/abi/event.h"
#include "ptrace/protocol.h"
#include "ptrace/ring.h"
#include "ptrace/tracee.h"

namespace brink::ptrace {

struct Window {
  uint64_t time_ns = 0;
  uint64_t ip = 0, sp = 0;              // where it began
  uint32_t cpu = 0;
  uint32_t stops = 0;
  bool filtered = false;                // entries were left out
  std::vector<uint64_t> chain;          // perf's form, leaf first
  std::vector<brink_branch> branches;   // oldest first

  void Clear();
};

// Frame-pointer call chain of a stopped thread: PERF_CONTEXT_USER, ip, return addresses. Stops where a frame does not
// lie above the one before or cannot be read. At most BRINK_MAX_CHAIN values.
std::vector<uint64_t> FrameChain(const decode::CpuRegs& regs, decode::Memory& memory);

// Begins windows and writes them out as struct brink_sample.
class Recorder {
 public:
  Recorder(const FollowConfig& config, SharedRing* ring) : config_(config), ring_(ring) {}

  // Called while the ring has no room, to let the reader catch up; false: give up, the sample is lost.
  using WaitForRoom = std::function<bool()>;
  void set_wait_for_room(WaitForRoom wait) { wait_ = std::move(wait); }

  // The thread is stopped with `regs`.
  void Begin(pid_t tid, const Regs& regs, uint32_t cpu, Window* window);
  // Adds a branch if its kind is wanted.
  void Add(Window* window, uint64_t from, uint64_t to, Kind kind);
  bool Full(const Window& window) const { return window.branches.size() >= config_.depth; }

  // Writes the stack and clears the window. `end_ip`: the first instruction not followed.
  void Emit(pid_t tgid, pid_t tid, brink_stop stop, uint64_t end_ip, Window* window);

  void Count(Counter counter, uint64_t by = 1) { ring_->Count(counter, by); }
  const FollowConfig& config() const { return config_; }

 private:
  FollowConfig config_;
  SharedRing* ring_;
  WaitForRoom wait_;
};

}  // namespace brink::ptrace
