// The bytes of a recording: a file, or a stream that can be read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace brink::perfdata {

class Input {
 public:
  virtual ~Input() = default;
  // Next bytes of the sequence, at most `size`; 0 at the end.
  virtual StatusOr<size_t> Read(std::byte* out, size_t size) = 0;
  // Bytes at a place, without moving the sequence; fewer only at the end. Streams answer UNIMPLEMENTED.
  virtual StatusOr<size_t> ReadAt(uint64_t offset, std::byte* out, size_t size) = 0;
  // Moves the sequence. Streams can only go forward.
  virtual Status Seek(uint64_t offset) = 0;
  virtual uint64_t position() const = 0;
  // Of the file; UINT64_MAX for a stream.
  virtual uint64_t size() const = 0;
  // For messages.
  virtual const std::string& name() const = 0;
};

// "-" is the standard input; a regular file there counts as a file.
StatusOr<std::unique_ptr<Input>> OpenInput(const std::string& path);
std::unique_ptr<Input> MemoryInput(std::string bytes, bool stream = false);
// Copies the rest of a stream, `prefix` first, into a nameless temporary file: for file-mode recordings that come
// through a pipe.
StatusOr<std::unique_ptr<Input>> SpoolToFile(Input& stream, std::string prefix);

}  // namespace brink::perfdata
