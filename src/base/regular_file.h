// Opening what a stranger may have put there.
#pragma once

#include "base/fd.h"

namespace brink {

// A regular file for reading, INVALID_ARGUMENT for anything else. What it is is known before it is opened: opening a device
// can do harm (a watchdog starts, a tape rewinds), opening a FIFO can wait for ever, and the name may change what it leads to
// at any moment. `extra`: O_NOFOLLOW, or 0. Needs /proc; asks the foreign opener as OpenFile does.
StatusOr<UniqueFd> OpenRegular(const std::string& path, int extra = 0);

// At most `most` bytes from `offset` on; no error where there are fewer.
StatusOr<std::string> ReadFrom(int fd, uint64_t offset, size_t most, const std::string& name);

// The foreign opener alone; PERMISSION_DENIED where there is none, or where the path is none of another process.
StatusOr<UniqueFd> AskForeignOpener(const std::string& path);

}  // namespace brink
