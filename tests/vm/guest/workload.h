// Code whose branches are known or can be found out: every kind of branch, page faults, string instructions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace brink::guest {

// Fresh memory for Workload's page faults, of kWorkloadPages pages.
inline constexpr int kWorkloadPages = 8;

// Does the same for the same seed, then enters the kernel by getppid. Branches of all kinds, at least a thousand.
void Workload(unsigned seed, char* memory);
// The address of Workload's last instruction, the syscall.
uint64_t WorkloadEnd();

// kWorkloadPages pages that were never touched.
char* FreshMemory();
// Page faults, system calls, timer interrupts and loops, until `stop`.
void Churn(const std::atomic<bool>& stop);

}  // namespace brink::guest
