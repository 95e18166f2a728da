#include "base/output.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace brink {

StatusOr<UniqueFd> OpenOutput(const std::string& path) {
  const bool system = path.starts_with("/dev/") || path.starts_with("/proc/self/");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | (system ? 0 : O_NOFOLLOW), 0600);
  if (fd >= 0) return UniqueFd(fd);
  if (errno == ELOOP && !system) return FailedPrecondition(path + " is a symbolic link; name the file that it leads to");
  return ErrnoError(errno, path);
}

}  // namespace brink
