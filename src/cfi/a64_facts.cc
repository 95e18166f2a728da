#include "cfi/a64_facts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "a64/encoding.h"

namespace brink::cfi {
namespace {

using a64::Bit;
using a64::Bits;
using a64::Form;

constexpr uint32_t kCallPads[] = {0xd503245f, 0xd50324df, 0xd503233f, 0xd503237f};
constexpr uint8_t kRestorer[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
constexpr uint64_t kPage = 4096;  // adrp's unit, whatever the kernel's page is

// What adr and adrp put into their register.
uint64_t PcRelative(uint32_t word, uint64_t ip) {
  const auto offset = static_cast<uint64_t>(a64::SignedBits(word, 23, 5) * 4 + static_cast<int64_t>(Bits(word, 30, 29)));
  return Bit(word, 31) ? (ip & ~(kPage - 1)) + offset * kPage : ip + offset;
}

}  // namespace

bool IsCallPadA64(uint32_t word) { return std::ranges::find(kCallPads, word) != std::end(kCallPads); }

std::span<const uint8_t> SignalRestorerA64() { return kRestorer; }

bool BeginsPltA64(std::span<const uint8_t> code) {
  constexpr uint32_t kPad = 0xd503245f, kPush = 0xa9bf7bf0;
  uint32_t words[2];
  if (code.size() < sizeof words) return false;
  std::memcpy(words, code.data(), sizeof words);
  return words[0] == kPush || (words[0] == kPad && words[1] == kPush);
}

void FormedAddressesA64(std::span<const uint8_t> code, uint64_t vaddr, const std::function<void(uint64_t)>& take) {
  std::optional<uint64_t> pages[32];
  for (size_t at = 0; at + 4 <= code.size(); at += 4) {
    uint32_t word;
    std::memcpy(&word, code.data() + at, sizeof word);
    const Form form = a64::FormOf(word);
    if (form == Form::kPcRelative) {
      const uint64_t value = PcRelative(word, vaddr + at);
      if (Bit(word, 31)) pages[a64::Rd(word)] = value;
      else take(value);
    } else if (form == Form::kAddSubImmediate && Bits(word, 31, 29) == 4 && pages[a64::Rn(word)]) {
      take(*pages[a64::Rn(word)] + (uint64_t{Bits(word, 21, 10)} << (Bit(word, 22) ? 12 : 0)));
    }
  }
}

}  // namespace brink::cfi
