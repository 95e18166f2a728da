// zstd in perf.data: COMPRESSED and COMPRESSED2 records.
//
// perf's own files hold one endless zstd stream cut into records. brink writes one whole frame a record, made of whole
// records: the same decoder reads it, and a damaged record costs only itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "perfdata/format.h"

struct ZSTD_CCtx_s;

namespace brink::perfdata {

// Packs whole records into COMPRESSED records. Memory is taken once, at Create.
class Compressor {
 public:
  // No compressed record expands to more than this; recorded in the COMPRESSED feature.
  static constexpr size_t kMaxChunk = 256 * 1024;

  // `level` as zstd's, 1 to 19.
  static StatusOr<std::unique_ptr<Compressor>> Create(int level);
  ~Compressor();

  struct Packed {
    std::span<const std::byte> record;  // to be written; valid until the next call
    size_t consumed = 0;                // bytes of the input that it stands for, whole records
  };
  // The next piece of `records` (whole records, not empty). A record that does not get smaller comes back as it is.
  Packed Pack(std::span<const std::byte> records);

 private:
  Compressor();
  size_t TryPack(std::span<const std::byte> chunk);

  ZSTD_CCtx_s* context_;
  size_t target_ = 64 * 1024;  // input size that is likely to fill a record
  std::unique_ptr<std::byte[]> out_;
};

}  // namespace brink::perfdata
