#include "base/regular_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace brink {

StatusOr<UniqueFd> OpenRegular(const std::string& path, int extra) {
  ASSIGN_OR_RETURN(UniqueFd place, OpenFile(path, O_PATH | extra));
  struct stat info;
  if (::fstat(place.get(), &info) != 0) return ErrnoError(errno, path);
  if (S_ISLNK(info.st_mode)) return ErrnoError(ELOOP, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": not a regular file");
  // The foreign opener's are open for reading already.
  if (const int flags = ::fcntl(place.get(), F_GETFL); flags >= 0 && (flags & O_PATH) == 0) return place;
  const std::string same = "/proc/self/fd/" + std::to_string(place.get());
  UniqueFd fd(::open(same.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.valid()) return fd;
  // Never by its name again, which by now may be another file's.
  const int error = errno;
  if (error == EACCES || error == EPERM) {
    if (auto foreign = AskForeignOpener(path); foreign.ok()) return foreign;
  }
  return ErrnoError(error, path);
}

StatusOr<std::string> ReadFrom(int fd, uint64_t offset, size_t most, const std::string& name) {
  constexpr size_t kBlock = 1 << 20;
  std::string text;
  struct stat info;
  if (::fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) > offset) text.reserve(std::min<uint64_t>(most, static_cast<uint64_t>(info.st_size) - offset));
  while (text.size() < most) {
    const size_t before = text.size(), wanted = std::min(kBlock, most - before);
    text.resize(before + wanted);
    const ssize_t n = ::pread(fd, text.data() + before, wanted, static_cast<off_t>(offset + before));
    text.resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, name);
    if (n == 0) break;
  }
  return text;
}

}  // namespace brink
