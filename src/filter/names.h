// Names of enumerated values and groups in the expression language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filter/expr.h"

namespace brink::filter {

// Bits of enum Kind: one bit a kind, bit 0 = unknown.
inline constexpr uint64_t KindBit(Kind kind) { return uint64_t{1} << static_cast<int>(kind); }
inline constexpr uint64_t kAllKinds = (uint64_t{1} << kKindCount) - 2;  // without unknown
inline constexpr uint64_t kAnyCall = KindBit(Kind::kCall) | KindBit(Kind::kIndCall) | KindBit(Kind::kSyscall) | KindBit(Kind::kIrq);
inline constexpr uint64_t kAnyReturn = KindBit(Kind::kRet) | KindBit(Kind::kSysret) | KindBit(Kind::kEret);
inline constexpr uint64_t kPrivUser = 1u << 1, kPrivKernel = 1u << 2, kPrivHv = 1u << 3;

// Bit mask that `name` stands for as a value of `type` (kind, priv, spec, bool): bit 0 is "unknown". perf's -j
// spellings are accepted for kinds (any, any_call, any_ret, ind_jmp, ...).
std::optional<uint64_t> ValueMask(ValueType type, std::string_view name);
// Names that ValueMask accepts, for suggestions.
std::vector<std::string> ValueNames(ValueType type);
// Canonical name of one value.
std::string_view ValueName(ValueType type, uint64_t value);
// "call ind_call ret": names of a kind mask.
std::string KindList(uint64_t mask, std::string_view separator = " ");

// Errno names ("EACCES" -> 13).
std::optional<int> ErrnoByName(std::string_view name);

}  // namespace brink::filter
