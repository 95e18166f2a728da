#include "perfdata/stream.h"

#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>

#include "perfdata/bytes.h"

namespace brink::perfdata {
namespace {

// How far a search for the next record looks ahead at once: several of the longest records.
constexpr size_t kResyncWindow = 4 * 65536;

}  // namespace

bool PlausibleType(uint32_t type) {
  return (type >= 1 && type < 32) || (type >= kRecordUserFirst && type < kRecordTypeLimit) || (type >= 0x8000 && type < 0x8020);
}

Chunk* ChunkPool::Take(size_t at_least) {
  Chunk* chunk;
  if (!free_.empty() && at_least <= capacity_) {
    chunk = free_.back();
    free_.pop_back();
  } else {
    chunks_.push_back(std::make_unique<Chunk>());
    chunk = chunks_.back().get();
    chunk->capacity = std::max(capacity_, at_least);
    chunk->data.reset(new std::byte[chunk->capacity]);
  }
  chunk->references = 1;
  bytes_ += chunk->capacity;
  return chunk;
}

void ChunkPool::Release(Chunk* chunk) {
  if (!chunk || --chunk->references != 0) return;
  bytes_ -= chunk->capacity;
  // A burst of reordering must not keep its memory for good.
  if (chunk->capacity == capacity_ && free_.size() < 8) {
    free_.push_back(chunk);
    return;
  }
  auto place = std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& c) { return c.get() == chunk; });
  chunks_.erase(place);
}

RecordStream::RecordStream(ChunkPool* pool, Fill fill, bool swap, ProblemHandler problems)
    : pool_(pool), fill_(std::move(fill)), swap_(swap), problems_(std::move(problems)) {}

RecordStream::~RecordStream() {
  pool_->Release(chunk_);
  pool_->Release(copy_);
}

void RecordStream::Consume(size_t bytes) {
  begin_ += bytes;
  if (!fixed_offset_) offset_ += bytes;
}

// Makes at least `bytes` available if the sequence has them.
Status RecordStream::Want(size_t bytes) {
  while (available() < bytes) {
    if (!chunk_ || begin_ + bytes > chunk_->capacity || end_ == chunk_->capacity) {
      // The rest moves to the start of a fresh chunk; the old one lives on while queued records need it.
      Chunk* next = pool_->Take(bytes + 8);
      size_t rest = available();
      if (rest != 0) std::memcpy(next->data.get(), chunk_->data.get() + begin_, rest);
      pool_->Release(chunk_);
      chunk_ = next;
      begin_ = 0;
      end_ = rest;
    }
    auto filled = fill_(chunk_->data.get() + end_, chunk_->capacity - end_);
    if (!filled.ok()) return filled.status();
    dry_ = *filled == 0;
    if (dry_) return OkStatus();
    end_ += *filled;
  }
  return OkStatus();
}

RecordHeader RecordStream::HeaderAt(size_t at) const {
  RecordHeader header;
  std::memcpy(&header, chunk_->data.get() + at, sizeof header);
  if (swap_) header = {Swap32(header.type), Swap16(header.misc), Swap16(header.size)};
  return header;
}

// Three headers in a row, or as many as there are bytes for.
bool RecordStream::LooksLikeRecords(size_t at) const {
  for (int i = 0; i < 3; ++i) {
    if (at == end_) return i > 0;
    if (end_ - at < sizeof(RecordHeader)) return false;
    RecordHeader header = HeaderAt(at);
    if (!PlausibleType(header.type) || header.size < sizeof header || (header.size % 8 != 0 && !odd_sizes_)) return false;
    if (header.size > end_ - at) return i > 0 && !dry_;
    at += header.size;
  }
  return true;
}

Status RecordStream::Resync(const std::string& why) {
  const uint64_t start = offset_;
  uint64_t lost = 0;
  const size_t step = odd_sizes_ ? 1 : 8;
  while (true) {
    RETURN_IF_ERROR(Want(kResyncWindow));
    // Without the window's last stretch a record at its end cannot be judged, unless nothing follows.
    size_t limit = available() < kResyncWindow ? available() : available() - 65536;
    size_t at = lost == 0 ? step : 0;
    while (at < limit && !LooksLikeRecords(begin_ + at)) at += step;
    at = std::min(at, available());
    bool found = at < limit;
    lost += at;
    Consume(at);
    if (found || available() == 0 || at == 0) break;
  }
  problems_({start, lost, why});
  return OkStatus();
}

// Records after an odd-sized one are unaligned in memory; their numbers are to be read in place.
void RecordStream::CopyAligned(RawRecord* record) {
  size_t size = (record->header.size + 7u) & ~size_t{7};
  if (!copy_ || copy_->capacity - copy_used_ < size) {
    pool_->Release(copy_);
    copy_ = pool_->Take(size);
    copy_used_ = 0;
  }
  std::byte* to = copy_->data.get() + copy_used_;
  copy_used_ += size;
  std::memcpy(to, record->data, record->header.size);
  record->data = to;
  record->chunk = copy_;
}

StatusOr<bool> RecordStream::Next(RawRecord* record) {
  while (true) {
    if (available() < sizeof(RecordHeader)) RETURN_IF_ERROR(Want(sizeof(RecordHeader)));
    if (available() < sizeof(RecordHeader)) return false;
    RecordHeader header = HeaderAt(begin_);
    if (header.size < sizeof header || !PlausibleType(header.type)) [[unlikely]] {
      RETURN_IF_ERROR(Resync(absl::StrFormat("no record: type %d, size %d", header.type, header.size)));
      continue;
    }
    if (available() < header.size) RETURN_IF_ERROR(Want(header.size));
    if (available() < header.size) return false;
    record->header = header;
    record->data = chunk_->data.get() + begin_;
    record->chunk = chunk_;
    record->offset = offset_;
    Consume(header.size);
    odd_sizes_ |= header.size % 8 != 0;
    if (reinterpret_cast<uintptr_t>(record->data) % 8 != 0) [[unlikely]] CopyAligned(record);
    return true;
  }
}

StatusOr<uint64_t> RecordStream::Skip(uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    if (available() == 0) RETURN_IF_ERROR(Want(1));
    if (available() == 0) break;
    size_t step = static_cast<size_t>(std::min<uint64_t>(available(), bytes - done));
    Consume(step);
    done += step;
  }
  return done;
}

void RecordStream::Finish() {
  if (available() != 0) problems_({offset_, available(), "the last record is cut short"});
  begin_ = end_;
}

}  // namespace brink::perfdata
