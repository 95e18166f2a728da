#include "base/output_file.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/units.h"

namespace brink {
namespace {

constexpr int kMostLinks = 40;  // as the kernel

bool Trusted(uid_t owner) {
  const uid_t own = ::geteuid();
  if (owner == 0 || owner == own) return true;
  const char* caller = own == 0 ? std::getenv("SUDO_UID") : nullptr;
  auto uid = caller ? ParseUint(caller) : StatusOr<uint64_t>(NotFound("no sudo"));
  return uid.ok() && *uid == owner;
}

// A file of a stranger's in a folder where strangers make files.
bool IsTrap(const struct stat& file, int folder) {
  struct stat around;
  if ((!S_ISREG(file.st_mode) && !S_ISFIFO(file.st_mode)) || Trusted(file.st_uid)) return false;
  return ::fstat(folder, &around) != 0 || (around.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

int Fail(int error) {
  errno = error;
  return -1;
}

// The walk along a path: `folder` is where `rest` is to be looked up.
struct Walk {
  UniqueFd folder;
  std::string rest;
  int links = 0;

  explicit Walk(std::string path) : rest(std::move(path)) { Begin(); }

  void Begin() {
    const bool from_root = rest.starts_with('/');
    if (from_root || !folder.valid()) folder.Reset(::open(from_root ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    rest.erase(0, rest.find_first_not_of('/'));
  }
  // The next name is taken from the front of `rest`.
  std::string Take() {
    const size_t cut = rest.find('/');
    std::string name = rest.substr(0, cut);
    rest.erase(0, cut == std::string::npos ? cut : rest.find_first_not_of('/', cut));
    return name;
  }
  // Puts where a link leads before what is left, or says that the kernel must follow it (/proc's links have no true text).
  // 0, or an errno.
  int Follow(int link, bool* by_kernel) {
    struct stat info;
    struct statfs system;
    if (::fstat(link, &info) != 0 || ::fstatfs(link, &system) != 0) return errno;
    if (!Trusted(info.st_uid) || ++links > kMostLinks) return ELOOP;
    *by_kernel = system.f_type == PROC_SUPER_MAGIC;
    if (*by_kernel) return 0;
    char text[PATH_MAX];
    const ssize_t n = ::readlinkat(link, "", text, sizeof text);
    if (n <= 0 || n >= static_cast<ssize_t>(sizeof text)) return n < 0 ? errno : ENAMETOOLONG;
    rest = std::string(text, static_cast<size_t>(n)) + (rest.empty() ? "" : "/" + rest);
    Begin();
    return 0;
  }
};

// The last name of the path, in a folder that is known. -2: it was a link, and the walk goes on.
int OpenLast(Walk* walk, const std::string& name, int flags, int mode) {
  const int folder = walk->folder.get();
  struct stat info;
  // Before it is opened too: opening a FIFO waits for its other end.
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && IsTrap(info, folder)) return Fail(EEXIST);
  UniqueFd fd(::openat(folder, name.c_str(), (flags & ~O_TRUNC) | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid() && errno == ELOOP && (flags & O_NOFOLLOW) == 0) {
    UniqueFd link(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!link.valid()) return -1;
    bool by_kernel = false;
    if (int error = walk->Follow(link.get(), &by_kernel); error != 0) return Fail(error);
    return by_kernel ? ::openat(folder, name.c_str(), flags | O_CLOEXEC, mode) : -2;
  }
  if (!fd.valid()) return -1;
  if (::fstat(fd.get(), &info) != 0) return -1;
  if (IsTrap(info, folder)) return Fail(EEXIST);
  if ((flags & O_TRUNC) && S_ISREG(info.st_mode) && info.st_size != 0 && ::ftruncate(fd.get(), 0) != 0) return -1;
  return fd.Release();
}

}  // namespace

int OpenOutput(const std::string& path, int flags, int mode) {
  if (path.empty() || path.size() >= PATH_MAX) return Fail(path.empty() ? ENOENT : ENAMETOOLONG);
  if (path.ends_with('/')) return Fail(EISDIR);
  Walk walk(path);
  while (walk.folder.valid()) {
    const std::string name = walk.Take();
    if (walk.rest.empty()) {
      if (name.empty() || name == "." || name == "..") return Fail(EISDIR);
      const int fd = OpenLast(&walk, name, flags, mode);
      if (fd != -2) return fd;
      continue;
    }
    UniqueFd next(::openat(walk.folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (!next.valid() || ::fstat(next.get(), &info) != 0) return -1;
    if (!S_ISLNK(info.st_mode)) {
      walk.folder = std::move(next);
      continue;
    }
    bool by_kernel = false;
    if (int error = walk.Follow(next.get(), &by_kernel); error != 0) return Fail(error);
    if (by_kernel) walk.folder.Reset(::openat(walk.folder.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  return -1;
}

Status ReplaceFile(const std::string& path, std::string_view bytes, int mode) {
  const std::string part = path + ".part";
  // What a killed run left, or what somebody put there: never written to.
  if (::unlink(part.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, part);
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(part, O_WRONLY | O_CREAT | O_EXCL, mode));
  Status written = WriteAll(fd.get(), bytes.data(), bytes.size());
  if (written.ok() && ::rename(part.c_str(), path.c_str()) != 0) written = ErrnoError(errno, "move to its place");
  if (!written.ok()) ::unlink(part.c_str());
  return Annotate(written, path);
}

}  // namespace brink
