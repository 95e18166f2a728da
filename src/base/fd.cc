#include "base/fd.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "base/output_file.h"
#include "base/regular_file.h"

namespace brink {
namespace {

ForeignOpener& Foreign() {
  static ForeignOpener opener;
  return opener;
}

// Of another process, for reading only: "/proc/" and a digit.
bool IsForeign(const std::string& path, int flags) {
  return (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY && path.starts_with("/proc/") && path.size() > 6 && path[6] >= '0' && path[6] <= '9';
}

}  // namespace

void SetForeignOpener(ForeignOpener opener) { Foreign() = std::move(opener); }

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

StatusOr<UniqueFd> AskForeignOpener(const std::string& path) {
  if (!Foreign() || !IsForeign(path, O_RDONLY)) return ErrnoError(EACCES, path);
  return Foreign()(path);
}

StatusOr<UniqueFd> OpenFile(const std::string& path, int flags, int mode) {
  if (flags & O_CREAT) return OpenOutput(path, flags, mode);
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd >= 0) return UniqueFd(fd);
  int error = errno;
  if ((error == EACCES || error == EPERM) && Foreign()) {
    if (IsForeign(path, flags)) return Foreign()(path);
    if ((flags & O_TMPFILE) == O_TMPFILE) return Foreign()(kScratchRequest + path);
  }
  return ErrnoError(error, path);
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
