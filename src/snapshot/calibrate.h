// Self-calibration: fires a hook of each kind in this process and learns what the way to the helper burns.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "snapshot/capture_path.h"
#include "snapshot/kernel_code.h"

namespace brink {

enum class HookKind { kRawTp, kTpBtf, kTracepoint, kKprobe, kKprobeMulti, kFentry, kFexit, kPerfEvent };
std::string_view HookKindName(HookKind kind);

struct Calibration {
  HookKind kind = HookKind::kRawTp;
  CapturePath path;
  int runs = 0;                  // snapshots of this process that were judged
  int burnt_least = 0, burnt_most = 0;
  int depth = 0;                 // entries of the deepest snapshot
  std::vector<std::vector<BranchEntry>> stacks;  // as judged, newest first
};

// Opens a held event of kernel and user branches for the time of the call (exclusive with other filters: call it before
// the session's own is open), attaches a program of `kind` to a hook that this process can fire, fires it with the known
// loop before each, and learns. Fails where the machine has no snapshots or no such hook, with the reason. About 50 ms.
StatusOr<Calibration> Calibrate(HookKind kind);

}  // namespace brink
