// Files that brink makes in folders that others may write to.
#pragma once

#include <string_view>

#include "base/fd.h"

namespace brink {

// open() with O_CREAT, for OpenFile. Every link on the way is looked at: one of a user who is neither root nor this user (nor,
// under sudo, who called it) is not followed, wherever in the path it lies. A file or FIFO that is there already, in a folder
// that others may write to, is not written to where such a user made it (who could read along) or where it has a second name.
StatusOr<UniqueFd> OpenOutput(const std::string& path, int flags, int mode);

// The whole file at once: written to a new file beside it (NAME.part) and moved over, so that a reader never sees half of it
// and a failure leaves what was there. Links are followed as above; what is no regular file (a device, a pipe) is written to
// as it is.
Status ReplaceFile(const std::string& path, std::string_view bytes, int mode = 0600);

}  // namespace brink
