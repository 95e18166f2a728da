// The branch record of brink: one taken control transfer, as the kernel's perf_branch_entry lays it out.
//
// Field rules (docs: hardware and ABI): cycles 0 is unknown; mispred and predicted both 0 is unknown; new_type counts
// only with type 15; priv counts only where `to` is not 0; reserved bits are masked before comparing or hashing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "brink/abi/event.h"

namespace brink {

// Kind names are the same in the CLI, JSON, text and here.
enum class Kind : uint8_t {
  kUnknown, kCond, kJump, kIndJump, kCall, kIndCall, kRet, kSyscall, kSysret, kIrq, kEret, kTxAbort,
};
inline constexpr int kKindCount = 12;

std::string_view KindName(Kind kind);
// Accepts the brink names only; perf's -j spellings belong to the filter module.
std::optional<Kind> ParseKind(std::string_view name);

// perf's branch type values (bits 20-23 of the info word).
enum class PerfBranchType : uint8_t {
  kUnknown = 0, kCond = 1, kUncond = 2, kInd = 3, kCall = 4, kIndCall = 5, kRet = 6, kSyscall = 7, kSysret = 8,
  kCondCall = 9, kCondRet = 10, kEret = 11, kIrq = 12, kSerror = 13, kNoTx = 14, kExtend = 15,
};

enum class Prediction : uint8_t { kUnknown, kPredicted, kMispredicted };
enum class Priv : uint8_t { kUnknown = 0, kUser = 1, kKernel = 2, kHv = 3 };
enum class Spec : uint8_t { kNa = 0, kWrongPath = 1, kNonSpecCorrect = 2, kSpecCorrect = 3 };

// A view of one entry. Same 24 bytes as struct brink_branch and perf_branch_entry.
struct BranchEntry : brink_branch {
  static constexpr uint64_t kInfoMask = (uint64_t{1} << 33) - 1;

  bool mispredicted_bit() const { return info & 1; }
  bool predicted_bit() const { return info >> 1 & 1; }
  bool in_tx() const { return info >> 2 & 1; }
  bool abort() const { return info >> 3 & 1; }
  uint32_t cycles() const { return info >> 4 & 0xffff; }  // 0 = unknown
  PerfBranchType type() const { return static_cast<PerfBranchType>(info >> 20 & 15); }
  Spec spec() const { return static_cast<Spec>(info >> 24 & 3); }
  uint32_t new_type() const { return info >> 26 & 15; }  // meaningful with type() == kExtend only
  Priv priv() const { return to ? static_cast<Priv>(info >> 30 & 7) : Priv::kUnknown; }
  Prediction prediction() const {
    if (mispredicted_bit()) return Prediction::kMispredicted;
    return predicted_bit() ? Prediction::kPredicted : Prediction::kUnknown;
  }
  Kind kind() const;
};
static_assert(sizeof(BranchEntry) == 24);

// Info word of a record whose prediction and cycles are unknown.
uint64_t MakeInfo(Kind kind, Priv priv = Priv::kUnknown);

// perf type that stands for `kind` in a file (sysret for sysret, IRQ for irq, ...).
PerfBranchType TypeOf(Kind kind);

}  // namespace brink
