// Files of another root directory (a container's), by the names that they have there.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace brink {

// Opens `path` with `root` (a descriptor of the folder) as its root: links in it mean that root's files, never ours. O_CLOEXEC is added.
StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path, int flags);

}  // namespace brink
