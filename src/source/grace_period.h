// Waits for a grace period of RCU without membarrier(): the kernel does so before an update of a map of maps returns, lest
// a program still uses the map that was taken out (since 4.18; kernel/bpf/syscall.c, maybe_wait_bpf_programs).
#pragma once

#include "base/fd.h"

namespace brink {

class GracePeriod {
 public:
  // Whether every BPF program that began before has ended; false: the maps could not be made. One thread.
  bool Wait();

 private:
  UniqueFd inner_, outer_;
};

}  // namespace brink
