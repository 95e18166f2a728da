// Reading numbers out of a recording of either byte order, never beyond its end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/branch.h"

namespace brink::perfdata {

static_assert(std::endian::native == std::endian::little, "the bit fields of a big-endian host would be the native ones");

inline uint64_t Swap64(uint64_t v) { return __builtin_bswap64(v); }
inline uint32_t Swap32(uint32_t v) { return __builtin_bswap32(v); }
inline uint16_t Swap16(uint16_t v) { return __builtin_bswap16(v); }

// A bit field of `width` bits at `position`, out of a 64-bit word of a big-endian file: there fields are laid out from
// the top. `word` is already a number.
inline uint64_t BigEndianField(uint64_t word, unsigned position, unsigned width) {
  return word >> (64 - position - width) & ((uint64_t{1} << width) - 1);
}

// The info word of a branch entry, and the flags of an attribute, of a big-endian file in little-endian positions.
inline uint64_t BranchInfoFromBigEndian(uint64_t word) {
  constexpr unsigned kFields[][2] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 16}, {20, 4}, {24, 2}, {26, 4}, {30, 3}, {33, 1}};
  uint64_t out = 0;
  for (auto [position, width] : kFields) out |= BigEndianField(word, position, width) << position;
  return out;
}
inline uint64_t AttrFlagsFromBigEndian(uint64_t word) {
  uint64_t out = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (bit == 15) {  // precise_ip has two bits
      out |= BigEndianField(word, 15, 2) << 15;
      ++bit;
    } else {
      out |= BigEndianField(word, bit, 1) << bit;
    }
  }
  return out;
}

// Memory for arrays that lie unaligned in a record; valid until Clear.
class AlignedCopies {
 public:
  void Clear() { blocks_.clear(); }
  uint64_t* Take(size_t words) { return blocks_.emplace_back(new uint64_t[words]).get(); }

 private:
  std::vector<std::unique_ptr<uint64_t[]>> blocks_;
};

// Walks over one record or section. Reading beyond the end gives zeros and sets ok() to false for good. With `swap`,
// arrays are turned into native order in place, so a piece of memory must be walked once only.
class Cursor {
 public:
  Cursor(std::byte* begin, size_t size, bool swap, AlignedCopies* copies = nullptr)
      : at_(begin), end_(begin + size), swap_(swap), copies_(copies) {}

  bool ok() const { return ok_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const std::byte* at() const { return at_; }
  bool swap() const { return swap_; }

  uint64_t U64() {
    uint64_t v = Load<uint64_t>();
    return swap_ ? Swap64(v) : v;
  }
  uint32_t U32() {
    uint32_t v = Load<uint32_t>();
    return swap_ ? Swap32(v) : v;
  }
  uint16_t U16() {
    uint16_t v = Load<uint16_t>();
    return swap_ ? Swap16(v) : v;
  }
  uint8_t U8() { return Load<uint8_t>(); }
  void Skip(uint64_t n) { (void)Bytes(n); }

  std::span<std::byte> Bytes(uint64_t n) {
    if (n > left()) {
      Fail();
      return {};
    }
    std::byte* from = at_;
    at_ += n;
    return {from, static_cast<size_t>(n)};
  }
  // `n` 64-bit words, native.
  std::span<uint64_t> U64s(uint64_t n) {
    if (n > left() / 8) {
      Fail();
      return {};
    }
    uint64_t* words = Aligned(static_cast<size_t>(n));
    if (swap_) {
      for (size_t i = 0; i < n; ++i) words[i] = Swap64(words[i]);
    }
    return {words, static_cast<size_t>(n)};
  }
  std::span<const BranchEntry> Branches(uint64_t n) {
    if (n > left() / sizeof(BranchEntry)) {
      Fail();
      return {};
    }
    std::span<uint64_t> words = U64s(n * 3);
    if (swap_) {
      for (size_t i = 2; i < words.size(); i += 3) words[i] = BranchInfoFromBigEndian(words[i]);
    }
    return {reinterpret_cast<const BranchEntry*>(words.data()), static_cast<size_t>(n)};
  }
  // Up to the first NUL of the next `n` bytes, all of which are consumed.
  std::string_view Text(uint64_t n) {
    std::span<const std::byte> bytes = Bytes(n);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.substr(0, text.find('\0'));
  }

 private:
  template <typename T>
  T Load() {
    if (sizeof(T) > left()) {
      Fail();
      return 0;
    }
    T v;
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  uint64_t* Aligned(size_t words) {
    std::byte* from = at_;
    at_ += words * 8;
    if (reinterpret_cast<uintptr_t>(from) % 8 == 0) return reinterpret_cast<uint64_t*>(from);
    uint64_t* copy = copies_->Take(words);
    std::memcpy(copy, from, words * 8);
    return copy;
  }
  void Fail() {
    ok_ = false;
    at_ = end_;
  }

  std::byte* at_;
  std::byte* end_;
  bool swap_;
  bool ok_ = true;
  AlignedCopies* copies_;
};

}  // namespace brink::perfdata
