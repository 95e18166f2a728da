#include "perfdata/compress.h"

#include <algorithm>
#include <cstring>
#include <zstd.h>

namespace brink::perfdata {
namespace {

constexpr size_t kPayloadMax = kMaxRecordSize - sizeof(RecordHeader);

size_t RecordSizeAt(std::span<const std::byte> records, size_t at) {
  RecordHeader header;
  std::memcpy(&header, records.data() + at, sizeof header);
  return header.size;
}

// Longest run of whole records of at most `limit` bytes, but at least one.
size_t WholeRecords(std::span<const std::byte> records, size_t limit) {
  size_t end = RecordSizeAt(records, 0);
  while (end < records.size()) {
    size_t next = end + RecordSizeAt(records, end);
    if (next > limit) break;
    end = next;
  }
  return end;
}

}  // namespace

Compressor::Compressor() : context_(ZSTD_createCCtx()), out_(new std::byte[kMaxRecordSize]) {}

Compressor::~Compressor() { ZSTD_freeCCtx(context_); }

StatusOr<std::unique_ptr<Compressor>> Compressor::Create(int level) {
  if (level < 1 || level > 19) return InvalidArgument("compression level " + std::to_string(level) + " is not within 1..19");
  std::unique_ptr<Compressor> out(new Compressor);
  if (!out->context_) return ResourceExhausted("no memory for the zstd compressor");
  ZSTD_CCtx_setParameter(out->context_, ZSTD_c_compressionLevel, level);
  // Without it a flipped bit gives wrong branches instead of a damaged record.
  ZSTD_CCtx_setParameter(out->context_, ZSTD_c_checksumFlag, 1);
  return out;
}

// Compressed payload size, or 0 when it does not fit one record.
size_t Compressor::TryPack(std::span<const std::byte> chunk) {
  size_t n = ZSTD_compress2(context_, out_.get() + sizeof(RecordHeader), kPayloadMax, chunk.data(), chunk.size());
  return ZSTD_isError(n) ? 0 : n;
}

Compressor::Packed Compressor::Pack(std::span<const std::byte> records) {
  size_t take = WholeRecords(records, std::min(target_, kMaxChunk));
  size_t payload = TryPack(records.first(take));
  while (payload == 0 && take > RecordSizeAt(records, 0)) {
    take = WholeRecords(records, take / 2);
    payload = TryPack(records.first(take));
  }
  if (payload == 0 || payload + sizeof(RecordHeader) >= take) {
    size_t one = RecordSizeAt(records, 0);
    return {records.first(one), one};
  }
  // Aim a tenth below a full record next time.
  target_ = std::clamp<size_t>(kPayloadMax * 9 / 10 * take / payload, 16 * 1024, kMaxChunk);
  RecordHeader header{kRecordCompressed, 0, static_cast<uint16_t>(payload + sizeof(RecordHeader))};
  std::memcpy(out_.get(), &header, sizeof header);
  return {std::span<const std::byte>(out_.get(), header.size), take};
}

}  // namespace brink::perfdata
