// Code whose branches are known or can be found out: every kind of branch, page faults, string instructions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brink::guest {

// Fresh memory for Workload's page faults, of kWorkloadPages pages.
inline constexpr int kWorkloadPages = 8;

// Does the same for the same seed, then enters the kernel by getppid. Branches of all kinds, at least a thousand.
void Workload(unsigned seed, char* memory);
// The address of Workload's last instruction, the syscall.
uint64_t WorkloadEnd();

}  // namespace brink::guest
