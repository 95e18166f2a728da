// Text on its way to a descriptor: appends without format strings, since a large recording is a hundred million numbers.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

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

// Lower-case hexadecimal without leading zeros; returns the end. Up to 16 characters.
inline char* PutHex(char* out, uint64_t v) {
  int digits = v == 0 ? 1 : (67 - std::countl_zero(v)) / 4;
  if (digits & 1) {
    *out++ = kHexPairs[2 * (v >> (4 * (digits - 1)) & 15) + 1];
    --digits;
  }
  for (int shift = 4 * digits - 8; shift >= 0; shift -= 8) {
    std::memcpy(out, &kHexPairs[2 * (v >> shift & 0xff)], 2);
    out += 2;
  }
  return out;
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
