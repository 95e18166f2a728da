#include "elf/compress.h"

#include <absl/strings/str_format.h>
#include <zlib.h>
#include <zstd.h>

namespace brink::elf {
namespace {

Status Inflate(std::string_view stored, std::string& out) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return Internal("zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  uint64_t in_left = stored.size(), out_left = out.size();
  int result = Z_OK;
  // zlib counts in 32 bits; sections may be larger.
  while (result == Z_OK) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min<uint64_t>(in_left, 1u << 30));
      in_left -= stream.avail_in;
    }
    if (stream.avail_out == 0) {
      stream.avail_out = static_cast<uInt>(std::min<uint64_t>(out_left, 1u << 30));
      out_left -= stream.avail_out;
    }
    if (stream.avail_in == 0 && in_left == 0 && stream.avail_out == 0) break;
    result = inflate(&stream, Z_NO_FLUSH);
    if (stream.avail_out == 0 && out_left == 0 && result == Z_OK) {
      // Output is full: only the end mark may follow.
      Bytef spare;
      stream.next_out = &spare;
      stream.avail_out = 1;
      result = inflate(&stream, Z_NO_FLUSH);
      if (result == Z_OK) result = Z_DATA_ERROR;
      if (stream.avail_out == 0) result = Z_DATA_ERROR;
      stream.avail_out = 0;
    }
  }
  bool whole = result == Z_STREAM_END && stream.avail_out == 0 && out_left == 0;
  inflateEnd(&stream);
  return whole ? OkStatus() : DataLoss("compressed section is damaged");
}

}  // namespace

StatusOr<std::string> Decompress(uint32_t method, std::string_view stored, uint64_t size) {
  if (size > stored.size() * kMaxExpansion + (64u << 10)) {
    return ResourceExhausted(absl::StrFormat("compressed section of %d bytes claims %d", stored.size(), size));
  }
  std::string out(static_cast<size_t>(size), '\0');
  if (method == 1) {
    RETURN_IF_ERROR(Inflate(stored, out));
    return out;
  }
  if (method == 2) {
    size_t got = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(got) || got != out.size()) return DataLoss("compressed section is damaged");
    return out;
  }
  return Unimplemented(absl::StrFormat("compression method %d is not known", method));
}

}  // namespace brink::elf
