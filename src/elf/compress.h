// Decompression with a bound that is known before the first byte is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace brink::elf {

inline constexpr uint64_t kMaxExpansion = 32;  // times the stored size, plus 64 KiB

// `method` is ELFCOMPRESS_ZLIB (1) or ELFCOMPRESS_ZSTD (2). The result has exactly `size` bytes; a claim above the
// bound is RESOURCE_EXHAUSTED, a stream that gives fewer or more bytes is DATA_LOSS.
StatusOr<std::string> Decompress(uint32_t method, std::string_view stored, uint64_t size);

}  // namespace brink::elf
