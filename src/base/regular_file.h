// Opening what a stranger may have put there.
#pragma once

#include "base/fd.h"

namespace brink {

// A regular file for reading, INVALID_ARGUMENT for anything else. What it is is known before it is opened: opening a device
// can do harm (a watchdog starts, a tape rewinds), opening a FIFO can wait for ever, and the name may change what it leads to
// at any moment. `extra`: O_NOFOLLOW, or 0.
StatusOr<UniqueFd> OpenRegular(const std::string& path, int extra = 0);

}  // namespace brink
