#include "base/output_file.h"

#include <cerrno>
#include <climits>
#include <cstdio>
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

// Where a path leads: a name in a folder that is held, so that nothing on the way there matters any more.
struct Place {
  UniqueFd folder;
  std::string name;
  // The name is one of /proc's links, which have no true text: the kernel has to follow it.
  bool by_kernel = false;
};

// The walk along a path: `folder` is where `rest` is to be looked up.
class Walk {
 public:
  // `follow_last`: where the whole path names a link, what it leads to is the place.
  Walk(std::string path, bool follow_last) : path_(std::move(path)), rest_(path_), follow_last_(follow_last) { Begin(); }

  StatusOr<Place> Run() {
    if (path_.empty()) return ErrnoError(ENOENT, "an empty name");
    if (path_.size() >= PATH_MAX) return ErrnoError(ENAMETOOLONG, path_);
    if (path_.ends_with('/')) return ErrnoError(EISDIR, path_);
    while (folder_.valid()) {
      std::string name = Take();
      const bool last = rest_.empty();
      if (last && (name.empty() || name == "." || name == "..")) return ErrnoError(EISDIR, path_);
      struct stat info;
      if (!last) {
        // With O_DIRECTORY, for without it nothing is mounted that is mounted when it is needed.
        UniqueFd next(::openat(folder_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (next.valid()) {
          folder_ = std::move(next);
          continue;
        }
        if (errno != ENOTDIR && errno != ELOOP) return ErrnoError(errno, path_);
      }
      if (::fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (last && errno == ENOENT) return Place{std::move(folder_), std::move(name)};
        return ErrnoError(errno, path_);
      }
      if (!S_ISLNK(info.st_mode) || (last && !follow_last_)) {
        if (last) return Place{std::move(folder_), std::move(name)};
        return ErrnoError(ENOTDIR, path_);
      }
      bool by_kernel = false;
      RETURN_IF_ERROR(Follow(name, &by_kernel));
      if (by_kernel && last) return Place{std::move(folder_), std::move(name), true};
      if (by_kernel) folder_.Reset(::openat(folder_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    return ErrnoError(errno, path_);
  }

 private:
  void Begin() {
    const bool from_root = rest_.starts_with('/');
    if (from_root || !folder_.valid()) folder_.Reset(::open(from_root ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    rest_.erase(0, rest_.find_first_not_of('/'));
  }
  // The next name is taken from the front of `rest`.
  std::string Take() {
    const size_t cut = rest_.find('/');
    std::string name = rest_.substr(0, cut);
    rest_.erase(0, cut == std::string::npos ? cut : rest_.find_first_not_of('/', cut));
    return name;
  }
  // Puts where the link leads before what is left, or says that the kernel must follow it.
  Status Follow(const std::string& name, bool* by_kernel) {
    UniqueFd link(::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    struct statfs system;
    if (!link.valid() || ::fstat(link.get(), &info) != 0 || ::fstatfs(link.get(), &system) != 0) return ErrnoError(errno, path_);
    if (!Trusted(info.st_uid)) return ErrnoError(EACCES, path_ + " leads through a link that another user made; name the file itself");
    if (++links_ > kMostLinks) return ErrnoError(ELOOP, path_);
    *by_kernel = system.f_type == PROC_SUPER_MAGIC;
    if (*by_kernel) return OkStatus();
    char text[PATH_MAX];
    const ssize_t n = ::readlinkat(link.get(), "", text, sizeof text);
    if (n <= 0 || n >= static_cast<ssize_t>(sizeof text)) return ErrnoError(n < 0 ? errno : ENAMETOOLONG, path_);
    rest_ = std::string(text, static_cast<size_t>(n)) + (rest_.empty() ? "" : "/" + rest_);
    Begin();
    return OkStatus();
  }

  std::string path_, rest_;
  bool follow_last_;
  UniqueFd folder_;
  int links_ = 0;
};

// Whether a stranger may have put the file there, ready to be written to.
Status CheckNoTrap(const struct stat& file, int folder, const std::string& path) {
  struct stat around;
  if (!S_ISREG(file.st_mode) && !S_ISFIFO(file.st_mode)) return OkStatus();
  if (::fstat(folder, &around) != 0) return ErrnoError(errno, path);
  if (Trusted(around.st_uid) && (around.st_mode & (S_IWGRP | S_IWOTH)) == 0) return OkStatus();
  if (!Trusted(file.st_uid)) return ErrnoError(EACCES, path + " was made by another user, in a folder that others may write to; remove it or name another");
  if (file.st_nlink > 1) return ErrnoError(EACCES, path + " has a second name, and lies in a folder that others may write to; remove it or name another");
  return OkStatus();
}

StatusOr<UniqueFd> OpenPlace(const Place& place, const std::string& path, int flags, int mode) {
  const int folder = place.folder.get();
  struct stat info;
  if (place.by_kernel) {
    UniqueFd fd(::openat(folder, place.name.c_str(), flags | O_CLOEXEC, mode));
    if (!fd.valid()) return ErrnoError(errno, path);
    return fd;
  }
  // Before it is opened too: opening a FIFO waits for its other end.
  if (::fstatat(folder, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) RETURN_IF_ERROR(CheckNoTrap(info, folder, path));
  UniqueFd fd(::openat(folder, place.name.c_str(), (flags & ~O_TRUNC) | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return ErrnoError(errno, path);
  RETURN_IF_ERROR(CheckNoTrap(info, folder, path));
  if ((flags & O_TRUNC) && S_ISREG(info.st_mode) && info.st_size != 0 && ::ftruncate(fd.get(), 0) != 0) return ErrnoError(errno, path);
  return fd;
}

}  // namespace

StatusOr<UniqueFd> OpenOutput(const std::string& path, int flags, int mode) {
  ASSIGN_OR_RETURN(Place place, Walk(path, (flags & (O_NOFOLLOW | O_EXCL)) == 0).Run());
  return OpenPlace(place, path, flags, mode);
}

Status ReplaceFile(const std::string& path, std::string_view bytes, int mode) {
  ASSIGN_OR_RETURN(Place place, Walk(path, true).Run());
  const int folder = place.folder.get();
  struct stat info;
  const bool there = ::fstatat(folder, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (place.by_kernel || (there && !S_ISREG(info.st_mode))) {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenPlace(place, path, O_WRONLY | O_CREAT | O_TRUNC, mode));
    return Annotate(WriteAll(fd.get(), bytes.data(), bytes.size()), path);
  }
  const std::string part = place.name + ".part";
  // What a killed run left, or what somebody put there: never written to.
  if (::unlinkat(folder, part.c_str(), 0) != 0 && errno != ENOENT) return ErrnoError(errno, path + ".part");
  UniqueFd fd(::openat(folder, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoError(errno, path + ".part");
  Status written = WriteAll(fd.get(), bytes.data(), bytes.size());
  if (written.ok() && ::renameat(folder, part.c_str(), folder, place.name.c_str()) != 0) written = ErrnoError(errno, "move to its place");
  if (!written.ok()) ::unlinkat(folder, part.c_str(), 0);
  return Annotate(written, path);
}

}  // namespace brink
