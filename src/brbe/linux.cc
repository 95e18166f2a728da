#include "brbe/linux.h"

#include <algorithm>

namespace brink::brbe {
namespace {

using namespace filter;

// perf's new_type values (valid with EXTEND_ABI).
enum : uint64_t { kFaultAlgn = 0, kFaultData = 1, kFaultInst = 2, kArch1 = 3, kArch2 = 4, kArch3 = 5, kArch4 = 6, kArch5 = 7 };

struct PerfType {
  PerfBranchType type;
  uint64_t new_type;
};

std::optional<PerfType> TypeFor(uint8_t type, bool quirks) {
  using enum PerfBranchType;
  switch (type) {
    case kDirect: return PerfType{kUncond, 0};
    case kIndirect: return PerfType{kInd, 0};
    case kDirectCall: return PerfType{PerfBranchType::kCall, 0};
    case kIndirectCall: return PerfType{kIndCall, 0};
    case kReturn: return PerfType{kRet, 0};
    case kExceptionReturn: return PerfType{kEret, 0};
    case kConditional: return PerfType{kCond, 0};
    case brbe::kCall: return PerfType{kSyscall, 0};
    case kTrap: return PerfType{PerfBranchType::kIrq, 0};
    case kSError: return PerfType{kSerror, 0};
    case kAlignment: return PerfType{kExtend, kFaultAlgn};
    case kInstFault: return PerfType{kExtend, kFaultInst};
    case kDataFault: return PerfType{kExtend, kFaultData};
    case brbe::kIrq: return PerfType{PerfBranchType::kIrq, 0};
    default: break;
  }
  if (quirks) return std::nullopt;
  switch (type) {
    case kFiq: return PerfType{kExtend, kArch1};
    case kDebugHalt: return PerfType{kExtend, kArch2};
    case kDebugExit: return PerfType{kExtend, kArch3};
    case kInstDebug: return PerfType{kExtend, kArch4};
    case kDataDebug: return PerfType{kExtend, kArch5};
    default: return std::nullopt;
  }
}

bool TypeWanted(uint8_t type, uint64_t bits) {
  const bool kernel = bits & kBranchKernel;
  const bool any = bits & kBranchAny;
  if (IsException(type)) return kernel && (any || bits & kBranchAnyCall);
  switch (type) {
    case kExceptionReturn: return kernel && (any || bits & kBranchAnyReturn);
    case kReturn: return any || bits & kBranchAnyReturn;
    case kDirectCall: return any || bits & (kBranchAnyCall | kBranchCall);
    case kIndirectCall: return any || bits & (kBranchAnyCall | kBranchIndCall);
    case kConditional: return any || bits & kBranchCond;
    case kIndirect: return any || bits & kBranchIndJump;
    default: return any;
  }
}

// Keeps a record within one privilege whole or not at all; hides the side of a crossing record that was not asked
// for. Half records always stay.
bool FilterPrivilege(BranchEntry& entry, const LinuxOptions& options) {
  if (!entry.from || !entry.to) return true;
  const bool from_user = !(entry.from >> 63), to_user = !(entry.to >> 63);
  const bool user = options.branch_bits & kBranchUser;
  const bool kernel = options.branch_bits & kBranchKernel || (options.vhe && options.branch_bits & kBranchHv);
  if (from_user == to_user) return from_user ? user : kernel;
  if (!user) (from_user ? entry.from : entry.to) = 0;
  if (!kernel) (from_user ? entry.to : entry.from) = 0;
  return true;
}

uint64_t PrivOf(uint8_t el, bool vhe) {
  switch (el) {
    case 0: return static_cast<uint64_t>(Priv::kUser);
    case 1: return static_cast<uint64_t>(Priv::kKernel);
    case 2: return static_cast<uint64_t>(vhe ? Priv::kKernel : Priv::kHv);
    default: return static_cast<uint64_t>(Priv::kUnknown);
  }
}

}  // namespace

std::optional<BranchEntry> ToPerf(const Record& record, const LinuxOptions& options) {
  if (record.valid == Valid::kInvalid) return std::nullopt;
  auto type = TypeFor(record.type, options.quirks);
  if (!type || !TypeWanted(record.type, options.branch_bits)) return std::nullopt;
  BranchEntry entry{};
  if (record.valid != Valid::kTargetOnly) entry.from = record.source;
  if (record.valid != Valid::kSourceOnly) entry.to = record.target;
  entry.info = static_cast<uint64_t>(type->type) << 20 | type->new_type << 26;
  if (!(options.branch_bits & kBranchNoCycles)) {
    Cycles cycles = CycleCount(record);
    uint64_t value = cycles.state == Cycles::State::kKnown ? cycles.value : cycles.state == Cycles::State::kOverflow ? 0xffff : 0;
    entry.info |= std::min<uint64_t>(value, 0xffff) << 4;
  }
  if (!(options.branch_bits & kBranchNoFlags)) {
    if (record.valid != Valid::kTargetOnly) entry.info |= record.mpred ? 1 : 2;
    if (record.valid != Valid::kSourceOnly) entry.info |= PrivOf(record.el, options.vhe) << 30;
  }
  if (!FilterPrivilege(entry, options)) return std::nullopt;
  return entry;
}

std::vector<BranchEntry> ToPerf(std::span<const Record> records, const LinuxOptions& options) {
  std::vector<BranchEntry> stack;
  for (const Record& record : records) {
    if (record.valid == Valid::kInvalid) break;
    if (auto entry = ToPerf(record, options)) stack.push_back(*entry);
  }
  return stack;
}

}  // namespace brink::brbe
