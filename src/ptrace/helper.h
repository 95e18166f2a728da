// The helper process: see ptrace/follower.h for why it exists.
#pragma once

#include "ptrace/protocol.h"
#include "ptrace/ring.h"

namespace brink::ptrace {

// What the forked child runs; never returns. `control` is its end of the socket.
[[noreturn]] void RunHelper(const FollowConfig& config, SharedRing* ring, int control);

}  // namespace brink::ptrace
