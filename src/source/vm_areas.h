// The mappings of a process with the flags that decide whether its memory may be read: /proc/PID/smaps.
//
// Threads: pure functions. Input is untrusted (a process names its mappings): lines that make no sense are skipped,
// names are kept as they are and escaped where they are shown.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernel/proc_maps.h"

namespace brink {

struct VmArea : Mapping {
  bool io = false;       // VM_IO: a device behind it
  bool pfn_map = false;  // VM_PFNMAP: raw page frames, no struct pages

  // The place where the kernel executes probed instructions (uprobes) is marked VM_IO and is ordinary memory.
  bool device() const { return (io || pfn_map) && path != "[uprobes]"; }
  // Written by the kernel: vvar, vvar_vclock and the paravirtual clock pages.
  bool kernel_written() const { return path.starts_with("[vvar") || path == "[pvclock]" || path == "[hvclock]"; }
};

// Areas of smaps text in the order given. Areas without a VmFlags line count as device: what is not known is not read.
std::vector<VmArea> ParseSmaps(std::string_view text);

// Reads /proc/PID/smaps below `proc_root` ("/proc"). NOT_FOUND when the process is gone.
StatusOr<std::vector<VmArea>> ReadVmAreas(pid_t pid, const std::string& proc_root = "/proc");

}  // namespace brink
