// Opens for a confined process what landlock takes from it: files of other processes (/proc/PID/map_files/RANGE and
// /proc/PID/root/PATH: read-only, regular files only, links resolved inside that process's root), and nameless scratch
// files, in which a stream is kept. Nothing else is answered.
//
// A child of this process, forked before the confinement, without threads; it ends with its socket. After StartBroker,
// base's OpenFile asks it whenever the kernel refuses such a path (SetForeignOpener).
#pragma once

#include <string>

#include "base/fd.h"

namespace brink {

// Unavailable where the process may read no other process's files anyway. Call once, single-threaded.
Status StartBroker();

// What the broker does for a request; exposed for tests. InvalidArgument for any other path.
StatusOr<UniqueFd> OpenForeign(const std::string& path);

}  // namespace brink
