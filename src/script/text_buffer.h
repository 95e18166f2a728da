// Text on its way to a descriptor: appends without format strings, since a large recording is a hundred million numbers.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/status.h"

namespace brink::script {

// "00" to "ff".
inline constexpr auto kHexPairs = [] {
  std::array<char, 512> table{};
  constexpr char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < 256; ++i) {
    table[2 * i] = kDigits[i >> 4];
    table[2 * i + 1] = kDigits[i & 15];
  }
  return table;
}();

// Lower-case hexadecimal without leading zeros; returns the end. Always stores sixteen characters, of which up to all
// count: numbers are moved to the top first, so that no digit has to be looked at alone.
inline char* PutHex(char* out, uint64_t v) {
  const unsigned digits = v == 0 ? 1 : (67 - static_cast<unsigned>(std::countl_zero(v))) / 4;
  const uint64_t top = __builtin_bswap64(v << (64 - 4 * digits));
#ifdef __SSE2__
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(top));
  const __m128i low_mask = _mm_set1_epi8(15);
  const __m128i nibbles = _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), low_mask), _mm_and_si128(bytes, low_mask));
  const __m128i letters = _mm_and_si128(_mm_cmpgt_epi8(nibbles, _mm_set1_epi8(9)), _mm_set1_epi8('a' - '0' - 10));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_add_epi8(_mm_add_epi8(nibbles, letters), _mm_set1_epi8('0')));
#else
  for (unsigned i = 0; i < 8; ++i) std::memcpy(out + 2 * i, &kHexPairs[2 * (top >> (8 * i) & 0xff)], 2);
#endif
  return out + digits;
}

class TextBuffer {
 public:
  // The descriptor stays the caller's.
  explicit TextBuffer(int fd, size_t capacity = 1 << 18)
      : fd_(fd), begin_(new char[capacity]), at_(begin_.get()), end_(begin_.get() + capacity) {}

  // Room for `size` more characters at the returned place; end it with Commit. Flushes when there is none. A size
  // beyond the capacity is the caller's mistake: long text goes through Text.
  char* Room(size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) Drain();
    return at_;
  }
  void Commit(char* end) { at_ = end; }

  void Char(char c) { *Room(1) = c, ++at_; }
  void Text(std::string_view text) {
    if (text.size() > static_cast<size_t>(end_ - begin_.get()) / 2) return LongText(text);
    char* to = Room(text.size());
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    at_ = to + text.size();
  }
  void Hex(uint64_t v) { Commit(PutHex(Room(16), v)); }
  void Dec(uint64_t v) {
    char* to = Room(20);
    Commit(std::to_chars(to, to + 20, v).ptr);
  }
  // printf's %WIDTHs, %-WIDTHs and %0WIDTHd.
  void Right(std::string_view text, size_t width) {
    for (size_t i = text.size(); i < width; ++i) Char(' ');
    Text(text);
  }
  void Left(std::string_view text, size_t width) {
    Text(text);
    for (size_t i = text.size(); i < width; ++i) Char(' ');
  }
  void DecRight(uint64_t v, size_t width, char fill = ' ') {
    char digits[20];
    size_t n = static_cast<size_t>(std::to_chars(digits, digits + 20, v).ptr - digits);
    for (; n < width; --width) Char(fill);
    Text({digits, n});
  }
  void HexRight(uint64_t v, size_t width) {
    char digits[16];
    Right({digits, static_cast<size_t>(PutHex(digits, v) - digits)}, width);
  }

  // Writes out what is there. The first error stays and stops all output.
  Status Flush() {
    Drain();
    return status_;
  }
  bool ok() const { return status_.ok(); }

 private:
  void Drain();
  void LongText(std::string_view text);
  void Write(std::string_view text);

  int fd_;
  std::unique_ptr<char[]> begin_;
  char* at_;
  char* end_;
  Status status_;
};

}  // namespace brink::script
