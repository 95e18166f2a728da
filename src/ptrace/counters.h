// What the helper counts, by cause. Cells live in the shared ring, written by the helper, read by the collector.
#pragma once

#include <cstdint>
#include <string_view>

#include "brink/abi/event.h"

namespace brink::ptrace {

enum Counter : uint32_t {
  kThreads,          // threads followed, all told
  kTicks,            // clock ticks that stopped a thread
  kWindows,          // windows (samples) begun
  kStops,            // single steps and breakpoint hits
  kBranches,         // branches recorded
  kStatic,           // of them by hop without a stop: direct jumps and calls, matched returns
  kBusy,             // ticks that arrived while a window was open
  kSigtrapBlocked,   // ticks that had to wait because the thread blocked SIGTRAP: no sample
  kSigtrapIgnored,   // ticks or steps given up because the process ignores SIGTRAP
  kInterrupted,      // threads interrupted while in a system call (leaving only)
  kGaps,             // step: stretches that were run over, not recorded
  kCompat,           // 32-bit code met: no sample
  kOwnStepping,      // the target single-steps itself: no sample
  kStrayed,          // hop: the thread did not come to the breakpoint
  kDiscarded,        // hop: branches worked out without a stop and not confirmed by the next one
  kDiffers,          // decoder and CPU disagree on where a branch went (none may)
  kIllegalState,     // refused state transitions (none may)
  kNoTick,           // threads that got no clock event: not sampled
  kLostSamples,      // ring full
  kLostBytes,
  kStopReason,       // + enum brink_stop: how stacks ended
  kCounterCount = kStopReason + BRINK_STOP_MAX,
};

// "sigtrap-blocked", "interrupted", ...: as reports print them.
std::string_view CounterName(uint32_t counter);

}  // namespace brink::ptrace
