// The registers of Arm's Branch Record Buffer Extension (and those around it that decide about it), bit by bit.
//
// Decoding never guesses: every bit ends in a field or among `reserved`, so encoding gives the value back exactly.
// Pure; tables are static.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace brink::brbe {

// Bit positions used by code; the tables below say the same with words.
inline constexpr uint64_t kCrException = uint64_t{1} << 23, kCrErtn = uint64_t{1} << 22, kCrFzpss = uint64_t{1} << 9,
                          kCrFzp = uint64_t{1} << 8, kCrMpred = uint64_t{1} << 4, kCrCc = uint64_t{1} << 3,
                          kCrExBre = uint64_t{1} << 1, kCrE0Bre = uint64_t{1} << 0;
inline constexpr int kCrTsShift = 5;
inline constexpr uint64_t kFcrCondDir = uint64_t{1} << 22, kFcrDirCall = uint64_t{1} << 21, kFcrIndCall = uint64_t{1} << 20,
                          kFcrRtn = uint64_t{1} << 19, kFcrIndirect = uint64_t{1} << 18, kFcrDirect = uint64_t{1} << 17,
                          kFcrEnI = uint64_t{1} << 16, kFcrPaused = uint64_t{1} << 7, kFcrLastFailed = uint64_t{1} << 6;
inline constexpr uint64_t kFcrKinds = kFcrCondDir | kFcrDirCall | kFcrIndCall | kFcrRtn | kFcrIndirect | kFcrDirect;
inline constexpr int kFcrBankShift = 28;

enum class Reset : uint8_t { kZero, kUnknown, kNone };  // kNone: read-only or of the environment

struct FieldSpec {
  const char* name;
  uint8_t hi, lo;
  Reset reset;
  const char* help;
  // "value=word" pairs separated by spaces, for fields that have names: "0=el1 1=virtual".
  const char* words = "";
  uint64_t Mask() const { return (hi - lo == 63 ? ~uint64_t{0} : (uint64_t{1} << (hi - lo + 1)) - 1) << lo; }
};

struct RegisterSpec {
  const char* name;
  const char* encoding;  // S2_1_C9_C0_0; "" for registers without one of their own here
  std::span<const FieldSpec> fields;
  // Set bits outside all fields are reserved (RES0).
  uint64_t FieldMask() const;
  const FieldSpec* FindField(std::string_view name) const;  // any case; nullptr if unknown
};

// By name, any case; nullptr if unknown. BRBINF<n>, BRBSRC<n>, BRBTGT<n> are found for every n of 0..31.
const RegisterSpec* FindRegister(std::string_view name);
std::vector<std::string> RegisterNames();

struct FieldValue {
  const FieldSpec* spec = nullptr;
  uint64_t value = 0;
  std::string word;  // name of the value, if it has one
};

struct Decoded {
  const RegisterSpec* spec = nullptr;
  uint64_t raw = 0;
  std::vector<FieldValue> fields;     // in table order, highest first
  uint64_t reserved = 0;              // bits set outside all fields
  std::vector<std::string> problems;  // reserved bits and values
  std::optional<uint64_t> Field(std::string_view name) const;
};
Decoded DecodeRegister(const RegisterSpec& spec, uint64_t value);

// The inverse of decoding: fields and reserved bits put together.
uint64_t EncodeRegister(const Decoded& decoded);
// From words: {"CC", "1"}, {"TS", "virtual"}. Values must fit; the error names the field and what it takes.
StatusOr<uint64_t> EncodeRegister(const RegisterSpec& spec, std::span<const std::pair<std::string, std::string>> fields);

}  // namespace brink::brbe
