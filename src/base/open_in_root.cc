#include "base/open_in_root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace brink {

StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  if (fd < 0) return ErrnoError(errno, path);
  return UniqueFd(static_cast<int>(fd));
}

}  // namespace brink
