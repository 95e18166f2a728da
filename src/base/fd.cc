#include "base/fd.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace brink {

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

StatusOr<UniqueFd> OpenFile(const std::string& path, int flags, int mode) {
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoError(errno, path);
  return UniqueFd(fd);
}

StatusOr<std::string> ReadFile(const std::string& path, size_t limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY));
  std::string content;
  char block[16384];
  while (true) {
    ssize_t n = ::read(fd.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, path);
    if (n == 0) return content;
    if (content.size() + static_cast<size_t>(n) > limit) return ResourceExhausted(path + ": larger than expected");
    content.append(block, static_cast<size_t>(n));
  }
}

Status WriteAll(int fd, const void* data, size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "write");
    p += n;
    size -= static_cast<size_t>(n);
  }
  return OkStatus();
}

}  // namespace brink
