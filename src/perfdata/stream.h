// Whole records out of a sequence of bytes, in memory that is shared with whoever still needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "perfdata/format.h"

namespace brink::perfdata {

// Memory that records lie in. Counted by hand: one count for the stream that fills it, one for each queued record.
struct Chunk {
  std::unique_ptr<std::byte[]> data;
  size_t capacity = 0;
  uint32_t references = 0;
};

class ChunkPool {
 public:
  explicit ChunkPool(size_t capacity) : capacity_(capacity) {}
  // With one reference.
  Chunk* Take(size_t at_least = 0);
  void Release(Chunk* chunk);
  // Of all chunks that are in use.
  size_t bytes() const { return bytes_; }

 private:
  size_t capacity_;
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> free_;
};

struct RawRecord {
  RecordHeader header{};          // native
  std::byte* data = nullptr;      // the whole record, 8-byte aligned
  Chunk* chunk = nullptr;         // that holds it; no reference of its own
  uint64_t offset = 0;
  std::byte* body() const { return data + sizeof(RecordHeader); }
  size_t body_size() const { return header.size - sizeof(RecordHeader); }
};

// Something that was not readable: where, how many bytes are lost by it, and why.
struct Problem {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string what;
};
using ProblemHandler = std::function<void(Problem)>;

// Types that can begin a record: others mean that what was found is no record.
bool PlausibleType(uint32_t type);

// Cuts bytes into records. A header that cannot be one is a problem: the stream looks for the next place where several
// records follow each other, and goes on there.
class RecordStream {
 public:
  // Copies the next bytes of the sequence; 0: no more for now.
  using Fill = std::function<StatusOr<size_t>(std::byte* out, size_t size)>;

  RecordStream(ChunkPool* pool, Fill fill, bool swap, ProblemHandler problems);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  // False when the sequence has run dry; what is left then is less than a record (see Finish). The record is valid
  // until the next call unless its chunk gets another reference.
  StatusOr<bool> Next(RawRecord* record);
  // Passes over bytes that are no records. Returns how many there were.
  StatusOr<uint64_t> Skip(uint64_t bytes);
  // No more bytes will come: a rest is a problem.
  void Finish();

  // Of the next record.
  uint64_t offset() const { return offset_; }
  // For sequences that do not start at 0, or whose records all stand for one place.
  void set_offset(uint64_t offset) { offset_ = offset; }
  void set_fixed_offset(bool fixed) { fixed_offset_ = fixed; }

 private:
  size_t available() const { return end_ - begin_; }
  Status Want(size_t bytes);
  void Consume(size_t bytes);
  RecordHeader HeaderAt(size_t at) const;
  bool LooksLikeRecords(size_t at) const;
  Status Resync(const std::string& why);
  void CopyAligned(RawRecord* record);

  ChunkPool* pool_;
  Fill fill_;
  bool swap_;
  ProblemHandler problems_;
  Chunk* chunk_ = nullptr;
  Chunk* copy_ = nullptr;  // holds aligned copies of unaligned records, one behind the other
  size_t copy_used_ = 0;
  bool odd_sizes_ = false;  // of records so far: then the next one can begin anywhere
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;
  bool fixed_offset_ = false;
  bool dry_ = false;  // the last fill gave nothing
};

}  // namespace brink::perfdata
