// CPU time of a target, for the comparison of expected with taken samples.
#pragma once

#include <cstdint>

namespace brink {

struct CpuTime {
  uint64_t user_ns = 0, system_ns = 0;
  uint64_t total() const { return user_ns + system_ns; }
};

}  // namespace brink
