#include "base/regular_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace brink {

StatusOr<UniqueFd> OpenRegular(const std::string& path, int extra) {
  ASSIGN_OR_RETURN(UniqueFd place, OpenFile(path, O_PATH | extra));
  struct stat info, opened;
  if (::fstat(place.get(), &info) != 0) return ErrnoError(errno, path);
  if (S_ISLNK(info.st_mode)) return ErrnoError(ELOOP, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  const std::string same = "/proc/self/fd/" + std::to_string(place.get());
  UniqueFd fd(::open(same.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.valid()) return fd;
  // Without /proc, or for the foreign opener to try: by its name, which by now may be another file's.
  ASSIGN_OR_RETURN(fd, OpenFile(path, O_RDONLY | O_NONBLOCK | extra));
  if (::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) return InvalidArgument(path + ": not a regular file");
  return fd;
}

}  // namespace brink
