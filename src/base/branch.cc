#include "base/branch.h"

#include <array>

namespace brink {
namespace {

constexpr std::array<std::string_view, kKindCount> kNames = {
    "unknown", "cond", "jump", "ind_jump", "call", "ind_call", "ret", "syscall", "sysret", "irq", "eret", "tx_abort"};

constexpr std::array<Kind, 16> kKindOfType = {
    Kind::kUnknown, Kind::kCond,   Kind::kJump, Kind::kIndJump, Kind::kCall, Kind::kIndCall, Kind::kRet, Kind::kSyscall,
    Kind::kSysret,  Kind::kCall,   Kind::kRet,  Kind::kEret,    Kind::kIrq,  Kind::kIrq,     Kind::kUnknown, Kind::kIrq};

constexpr std::array<PerfBranchType, kKindCount> kTypeOfKind = {
    PerfBranchType::kUnknown, PerfBranchType::kCond,    PerfBranchType::kUncond,  PerfBranchType::kInd,
    PerfBranchType::kCall,    PerfBranchType::kIndCall, PerfBranchType::kRet,     PerfBranchType::kSyscall,
    PerfBranchType::kSysret,  PerfBranchType::kIrq,     PerfBranchType::kEret,    PerfBranchType::kUnknown};

}  // namespace

std::string_view KindName(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<Kind> ParseKind(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

Kind BranchEntry::kind() const {
  if (abort()) return Kind::kTxAbort;
  return kKindOfType[static_cast<size_t>(type())];
}

uint64_t MakeInfo(Kind kind, Priv priv) {
  uint64_t info = static_cast<uint64_t>(kTypeOfKind[static_cast<size_t>(kind)]) << 20;
  if (kind == Kind::kTxAbort) info |= 1u << 3;
  return info | static_cast<uint64_t>(priv) << 30;
}

PerfBranchType TypeOf(Kind kind) { return kTypeOfKind[static_cast<size_t>(kind)]; }

}  // namespace brink
