// Whether BPF programs of a process outlive it. By what it holds, not by names: others may run the same programs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <set>

namespace brink::testing_support {

// Ids of the programs that `pid` holds now, as programs, links or perf events (/proc/PID/fdinfo).
std::set<uint32_t> ProgramsHeldBy(pid_t pid);

// Whether all of them are unloaded within `time`: the kernel frees programs after a grace period.
bool UnloadedWithin(const std::set<uint32_t>& programs, std::chrono::milliseconds time);

}  // namespace brink::testing_support
