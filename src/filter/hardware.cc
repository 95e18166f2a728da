#include "filter/hardware.h"

#include "filter/branch_flags.h"
#include "filter/names.h"

namespace brink::filter {
namespace {

constexpr uint64_t Bit(int n) { return uint64_t{1} << n; }

struct Mapping {
  uint64_t flag;
  uint64_t classes;
};

// Bits of LBR_SELECT that a perf flag clears.
constexpr Mapping kLbrSelect[] = {
    {kBranchUser, Bit(1)},
    {kBranchKernel, Bit(0)},
    {kBranchAny, Bit(2) | Bit(3) | Bit(4) | Bit(5) | Bit(6) | Bit(7) | Bit(8)},
    {kBranchAnyCall, Bit(3) | Bit(4) | Bit(8)},
    {kBranchAnyReturn, Bit(5) | Bit(8)},
    {kBranchIndCall, Bit(4)},
    {kBranchCond, Bit(2)},
    {kBranchIndJump, Bit(6)},
    {kBranchCall, Bit(3)},
    {kBranchCallStack, Bit(3) | Bit(4) | Bit(5)},
};
constexpr uint64_t kLbrSelectAll = 0x1ff;
constexpr uint64_t kLbrSelectCallStack = Bit(9);

constexpr Mapping kArchLbr[] = {
    {kBranchKernel, Bit(1)},
    {kBranchUser, Bit(2)},
    {kBranchAny, 0x7f0000},
    {kBranchAnyCall, Bit(19) | Bit(20) | Bit(22)},
    {kBranchAnyReturn, Bit(21) | Bit(22)},
    {kBranchIndCall, Bit(20)},
    {kBranchCond, Bit(16)},
    {kBranchIndJump, Bit(18)},
    {kBranchCall, Bit(19)},
    {kBranchCallStack, Bit(3) | Bit(19) | Bit(20) | Bit(21)},
};

constexpr uint64_t kBrbfcrCond = Bit(22), kBrbfcrDirCall = Bit(21), kBrbfcrIndCall = Bit(20), kBrbfcrRtn = Bit(19),
                   kBrbfcrIndirect = Bit(18), kBrbfcrDirect = Bit(17);
constexpr Mapping kBrbfcr[] = {
    {kBranchAny, 0x7e0000},         {kBranchAnyCall, kBrbfcrIndCall | kBrbfcrDirCall},
    {kBranchAnyReturn, kBrbfcrRtn}, {kBranchIndCall, kBrbfcrIndCall},
    {kBranchCond, kBrbfcrCond},     {kBranchIndJump, kBrbfcrIndirect},
    {kBranchCall, kBrbfcrDirCall},
};

template <size_t N>
uint64_t Collect(const Mapping (&table)[N], uint64_t branch_bits) {
  uint64_t classes = 0;
  for (const Mapping& m : table) {
    if (branch_bits & m.flag) classes |= m.classes;
  }
  return classes;
}

}  // namespace

uint64_t IntelLbrSelect(uint64_t branch_bits) {
  uint64_t select = kLbrSelectAll & ~Collect(kLbrSelect, branch_bits);
  return branch_bits & kBranchCallStack ? select | kLbrSelectCallStack : select;
}

std::optional<uint64_t> NehalemLbrSelect(uint64_t branch_bits) {
  if (branch_bits & (kBranchCall | kBranchCallStack)) return std::nullopt;
  uint64_t select = IntelLbrSelect(branch_bits);
  if (branch_bits & (kBranchAnyCall | kBranchAnyReturn)) select &= ~(Bit(6) | Bit(7));
  if (branch_bits & kBranchIndCall) select &= ~Bit(6);
  return select;
}

uint64_t ArchLbrCtl(uint64_t branch_bits) { return Bit(0) | Collect(kArchLbr, branch_bits); }

std::optional<uint64_t> AmdLbrSelect(uint64_t branch_bits) {
  constexpr uint64_t kRefused = kBranchAbortTx | kBranchInTx | kBranchNoTx | kBranchCallStack | kBranchNoFlags | kBranchNoCycles;
  if (branch_bits & kRefused) return std::nullopt;
  return kLbrSelectAll & ~Collect(kLbrSelect, branch_bits);
}

std::optional<BrbeRegisters> LinuxBrbe(uint64_t branch_bits, bool vhe, std::string* why) {
  if (branch_bits & (kBranchAbortTx | kBranchInTx | kBranchNoTx | kBranchCallStack | kBranchCounters)) {
    *why = "the driver refuses transactions, call stack and counters";
    return std::nullopt;
  }
  BrbeRegisters regs;
  regs.brbfcr = Collect(kBrbfcr, branch_bits);
  if (regs.brbfcr == 0) {
    *why = "no kind is selected";
    return std::nullopt;
  }
  const bool kernel = branch_bits & kBranchKernel || (vhe && branch_bits & kBranchHv);
  regs.brbcr = Bit(8) | Bit(5);  // FZP, TS virtual: always
  if (!(branch_bits & kBranchNoCycles)) regs.brbcr |= Bit(3);
  if (!(branch_bits & kBranchNoFlags)) regs.brbcr |= Bit(4);
  if (branch_bits & kBranchUser) regs.brbcr |= Bit(0);
  if (kernel) regs.brbcr |= Bit(1);
  if (branch_bits & kBranchKernel) {
    if (branch_bits & (kBranchAny | kBranchAnyCall)) regs.brbcr |= Bit(23);
    if (branch_bits & (kBranchAny | kBranchAnyReturn)) regs.brbcr |= Bit(22);
  }
  regs.brbcr_el12 = regs.brbcr & ~uint64_t{3};
  regs.brbcr_el2_nvhe = regs.brbcr & (Bit(3) | Bit(4));
  return regs;
}

uint64_t FinestLbrSelect(uint64_t kinds, uint64_t branch_bits) {
  uint64_t select = kLbrSelectAll & ~Collect(kLbrSelect, branch_bits & kBranchPrivMask);
  auto has = [&](uint64_t mask) { return (kinds & mask) != 0; };
  if (has(KindBit(Kind::kCond))) select &= ~Bit(2);
  if (has(KindBit(Kind::kCall))) select &= ~Bit(3);
  if (has(KindBit(Kind::kIndCall))) select &= ~Bit(4);
  if (has(KindBit(Kind::kRet))) select &= ~Bit(5);
  if (has(KindBit(Kind::kIndJump))) select &= ~Bit(6);
  if (has(KindBit(Kind::kJump))) select &= ~Bit(7);
  if (has(KindBit(Kind::kSyscall) | KindBit(Kind::kSysret) | KindBit(Kind::kIrq) | KindBit(Kind::kEret) | KindBit(Kind::kTxAbort))) select &= ~Bit(8);
  return select;
}

uint64_t FinestBrbfcr(uint64_t kinds) {
  uint64_t value = 0;
  if (kinds & KindBit(Kind::kCond)) value |= kBrbfcrCond;
  if (kinds & KindBit(Kind::kCall)) value |= kBrbfcrDirCall;
  if (kinds & KindBit(Kind::kIndCall)) value |= kBrbfcrIndCall;
  if (kinds & KindBit(Kind::kRet)) value |= kBrbfcrRtn;
  if (kinds & KindBit(Kind::kIndJump)) value |= kBrbfcrIndirect;
  if (kinds & KindBit(Kind::kJump)) value |= kBrbfcrDirect;
  return value;
}

std::string PowerBhrb(uint64_t branch_bits) {
  const uint64_t kinds = branch_bits & kBranchKindMask;
  if (kinds == kBranchAny) return "POWER8 and later: BHRB unfiltered";
  if (kinds == kBranchAnyCall) return "POWER8 and later: BHRB filter any_call";
  if (kinds == kBranchIndCall) return "POWER10: BHRB filter ind_call; earlier: ANY, the rest in software";
  if (kinds == kBranchCond) return "POWER10: BHRB filter cond; earlier: ANY, the rest in software";
  return "one filter at a time, of any, any_call, ind_call, cond: record ANY, the rest in software (no kinds are stored there)";
}

}  // namespace brink::filter
