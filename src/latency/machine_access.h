// Count of system management interrupts of a CPU: MSR 0x34 of Intel, read through the msr driver or a stand-in folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace brink::latency {

class SmiCounter {
 public:
  // `root`/N/msr of the CPU. The error names the file and what to do (modprobe msr).
  static StatusOr<SmiCounter> Open(const std::string& root, int cpu);
  // Now, since boot. An unreadable register reads as the last value.
  uint64_t Read();

 private:
  UniqueFd fd_;
  uint64_t last_ = 0;
};

// NUMA node of a CPU; 0 where the kernel does not say.
int NodeOfCpu(int cpu);

// Until destroyed, memory that this thread touches first comes from `node` where it has some left.
class NodePreference {
 public:
  explicit NodePreference(int node);
  ~NodePreference();
  NodePreference(const NodePreference&) = delete;
  NodePreference& operator=(const NodePreference&) = delete;

 private:
  bool set_ = false;
};

}  // namespace brink::latency
