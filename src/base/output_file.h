// Files that brink makes in folders that others may write to.
#pragma once

#include <string_view>

#include "base/fd.h"

namespace brink {

// open() with O_CREAT for OpenFile; a descriptor, or -1 with errno. Every link on the way is looked at: one of a user who is
// neither root nor this user (nor, under sudo, who called it) is not followed (ELOOP), wherever in the path it lies. A file
// or FIFO that is there already, was made by such a user and lies in a folder that others may write to is not written to
// (EEXIST): its maker could read along.
int OpenOutput(const std::string& path, int flags, int mode);

// The whole file at once: written to a new file beside it (PATH.part) and moved over, so that a reader never sees half of it
// and a failure leaves what was there.
Status ReplaceFile(const std::string& path, std::string_view bytes, int mode = 0600);

}  // namespace brink
