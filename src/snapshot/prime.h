// The first snapshot of each CPU, which tells what the driver's buffer holds from others (bpf/lib/fresh.h).
#pragma once

#include <vector>

struct bpf_program;

namespace brink {

// Runs a loaded BRINK_SNAPSHOT_PRIME program once on each of the CPUs. Where that fails, the first snapshot there is
// cut at its first seam instead: shorter, not wrong.
void PrimeSnapshots(const bpf_program* program, const std::vector<int>& cpus);

}  // namespace brink
