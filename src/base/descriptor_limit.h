// How many file descriptors this process may have.
#pragma once

#include <cstdint>

namespace brink {

// 0: not known.
uint64_t DescriptorLimit();
// For what takes descriptors by the CPU, the group or the process: as many as this process may ever have.
void RaiseDescriptorLimit();

}  // namespace brink
