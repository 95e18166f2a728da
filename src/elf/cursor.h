// A bounds-checked reader over untrusted bytes.
//
// Failure is sticky: a read beyond the end returns 0 and makes ok() false; every later read returns 0 too. Callers
// check ok() once after a group of reads, so a loop that runs until ok() is false always ends.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace brink::elf {

class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(std::string_view bytes, bool little_endian = true, size_t at = 0)
      : bytes_(bytes), at_(at <= bytes.size() ? at : bytes.size()), ok_(at <= bytes.size()), little_(little_endian) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  bool done() const { return !ok_ || at_ == bytes_.size(); }
  std::string_view bytes() const { return bytes_; }
  bool little_endian() const { return little_; }

  void Seek(uint64_t at) {
    if (at > bytes_.size()) return Fail();
    at_ = static_cast<size_t>(at);
  }
  void Skip(uint64_t count) {
    if (count > left()) return Fail();
    at_ += static_cast<size_t>(count);
  }
  void Fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

  uint8_t U8() { return static_cast<uint8_t>(Fixed(1)); }
  uint16_t U16() { return static_cast<uint16_t>(Fixed(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Fixed(4)); }
  uint64_t U64() { return Fixed(8); }
  // 4 or 8 bytes: a DWARF section offset.
  uint64_t Offset(bool is64) { return is64 ? U64() : U32(); }
  // 1, 2, 3, 4 or 8 bytes; any other size fails.
  uint64_t Sized(unsigned size) {
    if (size == 1 || size == 2 || size == 3 || size == 4 || size == 8) return Fixed(size);
    Fail();
    return 0;
  }

  // LEB128; bits above 64 are dropped, more than 16 bytes fail.
  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned i = 0; i < 16; ++i) {
      uint8_t byte = U8();
      if (i < 10) value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (!(byte & 0x80)) return value;
    }
    Fail();
    return 0;
  }
  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned i = 0; i < 16; ++i) {
      uint8_t byte = U8();
      if (i < 10) value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte & 0x80) continue;
      unsigned bits = 7 * (i + 1);
      if ((byte & 0x40) && bits < 64) value |= ~uint64_t{0} << bits;
      return static_cast<int64_t>(value);
    }
    Fail();
    return 0;
  }

  // Text up to a NUL (which is consumed). No NUL before the end fails.
  std::string_view CString() {
    const void* end = ok_ ? std::memchr(bytes_.data() + at_, 0, left()) : nullptr;
    if (end == nullptr) {
      Fail();
      return {};
    }
    size_t length = static_cast<size_t>(static_cast<const char*>(end) - (bytes_.data() + at_));
    std::string_view text = bytes_.substr(at_, length);
    at_ += length + 1;
    return text;
  }
  std::string_view Bytes(uint64_t count) {
    if (count > left()) {
      Fail();
      return {};
    }
    std::string_view piece = bytes_.substr(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return piece;
  }

 private:
  uint64_t Fixed(unsigned size) {
    if (size > left()) {
      Fail();
      return 0;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      unsigned shift = little_ ? 8 * i : 8 * (size - 1 - i);
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at_ + i])) << shift;
    }
    at_ += size;
    return value;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
  bool little_ = true;
};

// The NUL-terminated text at `offset` of a string table, "" where there is none.
inline std::string_view TextAt(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  std::string_view rest = table.substr(static_cast<size_t>(offset));
  size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace brink::elf
