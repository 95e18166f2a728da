#include "perfdata/decompress.h"

#include <cstring>
#include <zstd.h>

namespace brink::perfdata {
namespace {

bool BeginsFrame(std::span<const std::byte> payload) {
  uint32_t magic = 0;
  if (payload.size() < sizeof magic) return false;
  std::memcpy(&magic, payload.data(), sizeof magic);
  return magic == ZSTD_MAGICNUMBER;
}

}  // namespace

Decompressor::Decompressor() : context_(ZSTD_createDCtx()) {
  // perf compresses with levels up to 22; the widest window of those takes 128 MiB.
  if (context_) ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);
}

Decompressor::~Decompressor() { ZSTD_freeDCtx(context_); }

void Decompressor::Feed(std::span<const std::byte> payload) {
  payload_ = payload;
  more_ = true;
  if (lost_ && BeginsFrame(payload)) lost_ = false;
}

StatusOr<size_t> Decompressor::Read(std::byte* out, size_t size) {
  if (!context_) return ResourceExhausted("no memory for the zstd decoder");
  if (lost_ && !payload_.empty()) {
    payload_ = {};
    return DataLoss("compressed data behind a damaged record cannot be read");
  }
  ZSTD_outBuffer output{out, size, 0};
  while (output.pos == 0 && (!payload_.empty() || more_)) {
    ZSTD_inBuffer input{payload_.data(), payload_.size(), 0};
    size_t result = ZSTD_decompressStream(context_, &output, &input);
    if (ZSTD_isError(result)) {
      payload_ = {};
      more_ = false;
      lost_ = true;
      ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
      return DataLoss(std::string("cannot decompress: ") + ZSTD_getErrorName(result));
    }
    payload_ = payload_.subspan(input.pos);
    more_ = output.pos == size;
    if (input.pos == 0 && output.pos == 0) break;
  }
  return output.pos;
}

}  // namespace brink::perfdata
