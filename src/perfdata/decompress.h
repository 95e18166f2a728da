// The zstd stream inside COMPRESSED and COMPRESSED2 records: one sequence of bytes over all of them, or one frame each.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "perfdata/stream.h"

struct ZSTD_DCtx_s;

namespace brink::perfdata {

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();

  // The payload of the next record. It must stay where it is until Read gives 0.
  void Feed(std::span<const std::byte> payload);
  // Next decompressed bytes, at most `size`; 0 when the payload is used up. After an error the rest of the payload is
  // dropped, and the stream is lost until a record begins with a new frame.
  StatusOr<size_t> Read(std::byte* out, size_t size);
  size_t left() const { return payload_.size(); }

 private:
  ZSTD_DCtx_s* context_;
  std::span<const std::byte> payload_;
  bool lost_ = false;
  bool more_ = false;  // the decoder may still hold bytes
};

}  // namespace brink::perfdata
