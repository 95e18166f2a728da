#include "latency/side_outputs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/thread.h"

namespace brink::latency {

StatusOr<std::unique_ptr<FifoServer>> FifoServer::Start(const std::string& path, std::function<std::string()> status) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISFIFO(info.st_mode)) return FailedPrecondition("--fifo: " + path + " exists and is no pipe; choose another name");
    ::unlink(path.c_str());
  }
  if (::mkfifo(path.c_str(), 0666) != 0) return ErrnoError(errno, "--fifo: " + path);
  std::unique_ptr<FifoServer> server(new FifoServer(path, std::move(status)));
  server->stop_.Reset(::eventfd(0, EFD_CLOEXEC));
  if (!server->stop_.valid()) return ErrnoError(errno, "--fifo: eventfd");
  ASSIGN_OR_RETURN(server->thread_, StartThread("the thread of --fifo", [raw = server.get()] { raw->Serve(); }));
  return server;
}

FifoServer::~FifoServer() {
  uint64_t one = 1;
  ssize_t ignored = ::write(stop_.get(), &one, sizeof one);
  (void)ignored;
  if (thread_.joinable()) thread_.join();
  // Being reader and writer ourselves lets blocked openers through; closing then ends their reading.
  UniqueFd both(OpenPipe(O_RDWR));
  ::unlink(path_.c_str());
}

// In a folder of others another file may have come into its place.
int FifoServer::OpenPipe(int access) const {
  UniqueFd fd(::open(path_.c_str(), access | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  return fd.valid() && ::fstat(fd.get(), &info) == 0 && S_ISFIFO(info.st_mode) && info.st_uid == ::geteuid() ? fd.Release() : -1;
}

void FifoServer::Serve() {
  // A reader that leaves early must not kill the measurement.
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  struct pollfd wait = {stop_.get(), POLLIN, 0};
  while (true) {
    UniqueFd writer(OpenPipe(O_WRONLY));
    int pause_ms = 100;
    if (writer.valid()) {
      std::string text = status_();
      ssize_t ignored = ::write(writer.get(), text.data(), text.size());
      (void)ignored;
      pause_ms = 1;
    }
    writer.Reset();
    if (::poll(&wait, 1, pause_ms) > 0) return;
  }
}

SnapshotFile::~SnapshotFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status SnapshotFile::Write(const std::string& text) {
  std::string path = "/dev/shm/cyclictest" + std::to_string(::getpid());
  int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
  // The first time it must be ours: the folder is everybody's.
  if (path_.empty()) ::unlink(path.c_str()), flags |= O_EXCL;
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, flags, 0644));
  path_ = path;
  return WriteAll(fd.get(), text.data(), text.size());
}

}  // namespace brink::latency
