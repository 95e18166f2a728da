// Where a recording goes: the seam at which tests make a disk full or a pipe slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace brink::perfdata {

// One thread at a time. A result smaller than the input is a short write: the caller goes on with the rest.
class Sink {
 public:
  virtual ~Sink() = default;
  // Appends to a stream; at least one byte is taken or an error is returned.
  virtual StatusOr<size_t> Write(std::span<const std::byte> bytes) = 0;
  // Writes at a place of a file. Streams answer UNIMPLEMENTED.
  virtual StatusOr<size_t> PWrite(std::span<const std::byte> bytes, uint64_t offset) = 0;
  virtual Status Truncate(uint64_t size) = 0;
  virtual Status Sync() = 0;  // to stable storage; a no-op on streams
};

// A descriptor: regular file or pipe. Interrupted calls are repeated, a descriptor in non-blocking mode is waited for.
class FdSink : public Sink {
 public:
  // Takes the descriptor over. `name` is for messages.
  FdSink(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  StatusOr<size_t> Write(std::span<const std::byte> bytes) override;
  StatusOr<size_t> PWrite(std::span<const std::byte> bytes, uint64_t offset) override;
  Status Truncate(uint64_t size) override;
  Status Sync() override;

 private:
  UniqueFd fd_;
  std::string name_;
};

// Creates or replaces `path` with mode 0600. Refuses a file that another writer has open (they hold a lock on it).
StatusOr<std::unique_ptr<Sink>> OpenFileSink(const std::string& path);

// FAILED_PRECONDITION while a writer of brink has the file open. File systems without locks pass.
Status LockForWriting(int fd, const std::string& path);

// What WriteFully managed: `written` bytes are in the sink even when `status` is an error.
struct WriteOutcome {
  size_t written = 0;
  Status status;
};
WriteOutcome WriteFully(Sink& sink, std::span<const std::byte> bytes);
WriteOutcome PWriteFully(Sink& sink, std::span<const std::byte> bytes, uint64_t offset);

}  // namespace brink::perfdata
