// What the task that had the CPU went on to do in user space: walked from the registers with which the interrupt found it.
//
// Exact or shortened, as every walk: memory is what cannot have changed since (code, and constants of mapped files) and
// the piece of stack that the kernel copied at that moment. The walk ends where it needs anything else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/branch.h"
#include "brink/abi/latency.h"

namespace brink::walk {
class HostWalker;
}

namespace brink::latency {

struct OccupierWalk {
  std::vector<BranchEntry> branches;  // oldest first
  std::string ended;                  // why it is no longer, or why there is none
};

inline constexpr uint32_t kOccupierDepth = 32;

// Copies constant memory of the walked process; false when any byte cannot be read or may change.
using ReadConstant = std::function<bool(uint64_t address, void* to, size_t size)>;

// Keeps what it has decoded of the last process. One thread.
class OccupierWalker {
 public:
  OccupierWalker();
  ~OccupierWalker();
  // Reads code and constants of a process that still lives; `registers.when` must not be 0.
  OccupierWalk Walk(const brink_lat_regs& registers);
  OccupierWalk Walk(const brink_lat_regs& registers, const ReadConstant& constant);

 private:
  std::unique_ptr<walk::HostWalker> walker_;
  uint32_t last_tgid_ = 0;
};

}  // namespace brink::latency
