// Files that a user names to be written.
#pragma once

#include <string>

#include "base/fd.h"

namespace brink {

// Made anew with 0600, or emptied. A symbolic link as the last part of the path is refused, except for those of /dev and
// /proc/self (stdout): in a folder that others may write to it could lead anywhere.
StatusOr<UniqueFd> OpenOutput(const std::string& path);

}  // namespace brink
