// Decides what the walker may do in an address space: which memory it must not touch and whether segment bases are true.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "brink/abi/walk.h"
#include "source/segment_scan.h"
#include "source/vm_areas.h"

namespace brink {

struct VettingOptions {
  bool allow_device = false;  // walk processes that map device memory, around that memory
};

struct Verdict {
  brink_walk_proc proc{};
  std::string note;  // why it is refused or limited; "" when nothing is to be said
};

// Pure. Kernel-written areas (vvar) become unknown ranges. Device areas refuse the process, or with allow_device become
// device ranges; more areas than the ABI has places for are joined over the smallest gaps, which only widens what is
// not read.
Verdict Judge(std::span<const VmArea> areas, const SegmentScanner::Answer& segments, const VettingOptions& options);

}  // namespace brink
