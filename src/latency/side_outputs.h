// Status for others while a measurement runs: the named pipe of --fifo and the shared-memory file of SIGUSR2.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/status.h"

namespace brink::latency {

// Hands the current status to whoever opens the pipe. Removed when destroyed, and no reader is left hanging: whoever
// waits in open() then gets the last status and the end of file.
class FifoServer {
 public:
  // An older pipe at `path` is replaced; anything that is no pipe is left alone and refused.
  static StatusOr<std::unique_ptr<FifoServer>> Start(const std::string& path, std::function<std::string()> status);
  ~FifoServer();

 private:
  FifoServer(std::string path, std::function<std::string()> status) : path_(std::move(path)), status_(std::move(status)) {}
  void Serve();
  int OpenPipe(int access) const;  // -1 where it is not ours any more
  std::string path_;
  std::function<std::string()> status_;
  UniqueFd stop_;
  std::thread thread_;
};

// /dev/shm/cyclictestPID, where get_cyclictest_snapshot looks. Removed when destroyed.
class SnapshotFile {
 public:
  ~SnapshotFile();
  // Replaces the text.
  Status Write(const std::string& text);

 private:
  std::string path_;
};

}  // namespace brink::latency
