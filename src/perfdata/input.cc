#include "perfdata/input.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace brink::perfdata {
namespace {

class FdInput : public Input {
 public:
  FdInput(UniqueFd fd, std::string name, uint64_t size) : fd_(std::move(fd)), name_(std::move(name)), size_(size) {}

  StatusOr<size_t> Read(std::byte* out, size_t size) override {
    while (true) {
      ssize_t n = size_ == UINT64_MAX ? read(fd_.get(), out, size) : pread(fd_.get(), out, size, static_cast<off_t>(position_));
      if (n >= 0) {
        position_ += static_cast<uint64_t>(n);
        return static_cast<size_t>(n);
      }
      if (errno != EINTR) return ErrnoError(errno, "cannot read " + name_);
    }
  }
  StatusOr<size_t> ReadAt(uint64_t offset, std::byte* out, size_t size) override {
    if (size_ == UINT64_MAX) return Unimplemented("a stream cannot be read at a place");
    if (offset >= size_) return size_t{0};
    size_t done = 0;
    while (done < size) {
      ssize_t n = pread(fd_.get(), out + done, size - done, static_cast<off_t>(offset + done));
      if (n == 0) break;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "cannot read " + name_);
      done += static_cast<size_t>(n);
    }
    return done;
  }
  Status Seek(uint64_t offset) override {
    if (size_ != UINT64_MAX) {
      position_ = offset;
      return OkStatus();
    }
    std::byte block[16384];
    while (position_ < offset) {
      ASSIGN_OR_RETURN(size_t n, Read(block, static_cast<size_t>(std::min<uint64_t>(sizeof block, offset - position_))));
      if (n == 0) break;
    }
    return OkStatus();
  }
  uint64_t position() const override { return position_; }
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

 private:
  UniqueFd fd_;
  std::string name_;
  uint64_t size_;
  uint64_t position_ = 0;
};

class StringInput : public Input {
 public:
  StringInput(std::string bytes, bool stream) : bytes_(std::move(bytes)), stream_(stream) {}

  StatusOr<size_t> Read(std::byte* out, size_t size) override {
    size_t n = Copy(position_, out, size);
    position_ += n;
    return n;
  }
  StatusOr<size_t> ReadAt(uint64_t offset, std::byte* out, size_t size) override {
    if (stream_) return Unimplemented("a stream cannot be read at a place");
    return Copy(offset, out, size);
  }
  Status Seek(uint64_t offset) override {
    position_ = std::min<uint64_t>(offset, bytes_.size());
    return OkStatus();
  }
  uint64_t position() const override { return position_; }
  uint64_t size() const override { return stream_ ? UINT64_MAX : bytes_.size(); }
  const std::string& name() const override { return name_; }

 private:
  size_t Copy(uint64_t offset, std::byte* out, size_t size) const {
    if (offset >= bytes_.size()) return 0;
    size_t n = std::min<size_t>(size, bytes_.size() - offset);
    if (n != 0) std::memcpy(out, bytes_.data() + offset, n);
    return n;
  }
  std::string bytes_;
  std::string name_ = "(memory)";
  bool stream_;
  uint64_t position_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<Input>> OpenInput(const std::string& path) {
  UniqueFd fd;
  if (path == "-") {
    fd.Reset(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!fd.valid()) return ErrnoError(errno, "cannot read the standard input");
  } else {
    ASSIGN_OR_RETURN(fd, OpenFile(path, O_RDONLY));
  }
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "cannot examine " + path);
  if (S_ISDIR(st.st_mode)) {
    return InvalidArgument(path + " is a folder; a recording made by perf record --threads has to be given by its files, " + path + "/data.N");
  }
  uint64_t size = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : UINT64_MAX;
  if (size != UINT64_MAX) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::make_unique<FdInput>(std::move(fd), path == "-" ? "the standard input" : path, size);
}

std::unique_ptr<Input> MemoryInput(std::string bytes, bool stream) { return std::make_unique<StringInput>(std::move(bytes), stream); }

StatusOr<std::unique_ptr<Input>> SpoolToFile(Input& stream, std::string prefix) {
  const char* folder = std::getenv("TMPDIR");
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR));
  uint64_t size = prefix.size();
  RETURN_IF_ERROR(WriteAll(fd.get(), prefix.data(), prefix.size()));
  std::vector<std::byte> block(256 * 1024);
  while (true) {
    ASSIGN_OR_RETURN(size_t n, stream.Read(block.data(), block.size()));
    if (n == 0) break;
    RETURN_IF_ERROR(WriteAll(fd.get(), block.data(), n));
    size += n;
  }
  return std::make_unique<FdInput>(std::move(fd), stream.name(), size);
}

}  // namespace brink::perfdata
