#include "perfdata/sink.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

namespace brink::perfdata {
namespace {

// True when the call is to be repeated.
bool Again(int fd) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd waiter{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&waiter, 1, -1) >= 0 || errno == EINTR;
}

template <typename Put>
WriteOutcome Fully(std::span<const std::byte> bytes, Put put) {
  WriteOutcome outcome;
  while (outcome.written < bytes.size()) {
    auto taken = put(bytes.subspan(outcome.written), outcome.written);
    if (!taken.ok()) {
      outcome.status = taken.status();
      break;
    }
    if (*taken == 0) {
      outcome.status = Unavailable("a write took nothing");
      break;
    }
    outcome.written += *taken;
  }
  return outcome;
}

}  // namespace

StatusOr<size_t> FdSink::Write(std::span<const std::byte> bytes) {
  while (true) {
    ssize_t n = write(fd_.get(), bytes.data(), bytes.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (!Again(fd_.get())) return ErrnoError(errno, "cannot write " + name_);
  }
}

StatusOr<size_t> FdSink::PWrite(std::span<const std::byte> bytes, uint64_t offset) {
  while (true) {
    ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n >= 0) return static_cast<size_t>(n);
    if (!Again(fd_.get())) return ErrnoError(errno, "cannot write " + name_);
  }
}

Status FdSink::Truncate(uint64_t size) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return ErrnoError(errno, "cannot set the size of " + name_);
  return OkStatus();
}

Status FdSink::Sync() {
  // EINVAL: a pipe or socket, which has nothing to be synced.
  if (fdatasync(fd_.get()) != 0 && errno != EINVAL && errno != EROFS) return ErrnoError(errno, "cannot sync " + name_);
  return OkStatus();
}

StatusOr<std::unique_ptr<Sink>> OpenFileSink(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR | O_CREAT, 0600));
  RETURN_IF_ERROR(LockForWriting(fd.get(), path));
  // Devices and pipes given as a file have no size to be set.
  if (ftruncate(fd.get(), 0) != 0 && errno != EINVAL) return ErrnoError(errno, "cannot empty " + path);
  return std::make_unique<FdSink>(std::move(fd), path);
}

Status LockForWriting(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OkStatus();
  return FailedPrecondition(path + " is being written by another process; wait for its end or choose another file");
}

WriteOutcome WriteFully(Sink& sink, std::span<const std::byte> bytes) {
  return Fully(bytes, [&](std::span<const std::byte> rest, size_t) { return sink.Write(rest); });
}

WriteOutcome PWriteFully(Sink& sink, std::span<const std::byte> bytes, uint64_t offset) {
  return Fully(bytes, [&](std::span<const std::byte> rest, size_t done) { return sink.PWrite(rest, offset + done); });
}

}  // namespace brink::perfdata
