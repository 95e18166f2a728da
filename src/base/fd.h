// Owning file descriptor, and whole-file reading.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/status.h"

namespace brink {

// Owns one descriptor; closes it once. Movable only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Opens with O_CLOEXEC added. The error names the path. Files of other processes (/proc/PID/...) that the kernel
// refuses to a confined process are asked for at the foreign opener, if there is one. With O_CREAT a link is followed
// only if root or this user made it.
StatusOr<UniqueFd> OpenFile(const std::string& path, int flags, int mode = 0600);

// Set once, before threads are started (confine/broker.h). Nameless files (O_TMPFILE in PATH) are asked for as
// kScratchRequest + PATH.
inline constexpr char kScratchRequest[] = "scratch:";
using ForeignOpener = std::function<StatusOr<UniqueFd>(const std::string& path)>;
void SetForeignOpener(ForeignOpener opener);

// The whole file, at most `limit` bytes; longer is RESOURCE_EXHAUSTED. Works on /proc and sysfs, where sizes lie.
StatusOr<std::string> ReadFile(const std::string& path, size_t limit = 64u << 20);

// Writes all bytes, however many calls it takes (EINTR is retried).
Status WriteAll(int fd, const void* data, size_t size);

}  // namespace brink
