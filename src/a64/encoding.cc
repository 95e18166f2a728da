#include "a64/encoding.h"

#include <array>
#include <vector>

namespace brink::a64 {
namespace {

// In the order of the groups; within one, what is more special comes first.
constexpr Row kTable[] = {
    // Reserved and SVE, SME.
    {0x9e000000, 0x80000000, Form::kSve},
    {0x1e000000, 0x04000000, Form::kSve},
    // Data processing, immediate.
    {0x1f000000, 0x10000000, Form::kPcRelative},
    {0x1f800000, 0x11000000, Form::kAddSubImmediate},
    {0xbfc0c000, 0x91800000, Form::kAddTag},
    {0x7ff00000, 0x11c00000, Form::kMinMaxImmediate},
    {0x1f800000, 0x12000000, Form::kLogicalImmediate},
    {0x1f800000, 0x12800000, Form::kMoveWide},
    {0x1f800000, 0x13000000, Form::kBitfield},
    {0x7fa00000, 0x13800000, Form::kExtract},
    // Branches, exceptions, system.
    {0xff000000, 0x54000000, Form::kCondBranch},
    {0xff000000, 0xd4000000, Form::kException},
    {0xfffff01f, 0xd503201f, Form::kHint},
    {0xfffff01f, 0xd503301f, Form::kBarrier},
    {0xffffffc0, 0xd5031000, Form::kWaitTimeout},
    {0xfff8f01f, 0xd500401f, Form::kPstate},
    {0xfff80000, 0xd5080000, Form::kSys},
    {0xfff80000, 0xd5280000, Form::kSysResult},
    {0xfff00000, 0xd5100000, Form::kMsr},
    {0xfff00000, 0xd5300000, Form::kMrs},
    {0xff9ffc1f, 0xd61f0000, Form::kBranchRegister},
    {0xff9ff800, 0xd61f0800, Form::kBranchRegisterPac},
    {0xffdff800, 0xd71f0800, Form::kBranchRegisterPac},
    {0xffffffff, 0xd69f03e0, Form::kExceptionReturn},
    {0xfffffbff, 0xd69f0bff, Form::kExceptionReturn},
    {0x7c000000, 0x14000000, Form::kBranchImmediate},
    {0x7e000000, 0x34000000, Form::kCompareBranch},
    {0x7e000000, 0x36000000, Form::kTestBranch},
    // Loads and stores.
    {0xbfbf0000, 0x0c000000, Form::kVectorMultiple},
    {0xbfa00000, 0x0c800000, Form::kVectorMultiplePost},
    {0xbf9f0000, 0x0d000000, Form::kVectorSingle},
    {0xbf800000, 0x0d800000, Form::kVectorSinglePost},
    {0xff200000, 0xd9200000, Form::kMemoryTag},
    {0x3f000000, 0x08000000, Form::kExclusive},
    {0x3f200c00, 0x19000000, Form::kOrderedUnscaled},
    {0x3b000000, 0x18000000, Form::kLiteral},
    {0x3a000000, 0x28000000, Form::kPair},
    {0x3b200c00, 0x38000000, Form::kUnscaled},
    {0x3b200c00, 0x38000400, Form::kPost},
    {0x3f200c00, 0x38000800, Form::kUnprivileged},
    {0x3b200c00, 0x38000c00, Form::kPre},
    {0x3f200c00, 0x38200000, Form::kAtomic},
    {0x3b200c00, 0x38200800, Form::kRegisterOffset},
    {0xff200400, 0xf8200400, Form::kAuthenticated},
    {0x3b000000, 0x39000000, Form::kUnsignedOffset},
    // Data processing, register.
    {0x1f000000, 0x0a000000, Form::kLogicalShifted},
    {0x1f200000, 0x0b000000, Form::kAddSubShifted},
    {0x1fe00000, 0x0b200000, Form::kAddSubExtended},
    {0x1fe0fc00, 0x1a000000, Form::kAddSubCarry},
    {0xffe07c10, 0xba000400, Form::kRotateIntoFlags},
    {0xffffbc1f, 0x3a00080d, Form::kEvaluateFlags},
    {0x3fe00c10, 0x3a400000, Form::kCondCompareRegister},
    {0x3fe00c10, 0x3a400800, Form::kCondCompareImmediate},
    {0x3fe00800, 0x1a800000, Form::kCondSelect},
    {0x5fe00000, 0x1ac00000, Form::kTwoSources},
    {0x7fe00000, 0x5ac00000, Form::kOneSource},
    {0x7f000000, 0x1b000000, Form::kThreeSources},
    // Scalar floating point.
    {0x7f20fc00, 0x1e200000, Form::kFpInteger},
    {0x7f200000, 0x1e000000, Form::kFpFixed},
    {0xff207c00, 0x1e204000, Form::kFpOneSource},
    {0xff203c00, 0x1e202000, Form::kFpCompare},
    {0xff201fe0, 0x1e201000, Form::kFpImmediate},
    {0xff200c00, 0x1e200400, Form::kFpCondCompare},
    {0xff200c00, 0x1e200800, Form::kFpTwoSources},
    {0xff200c00, 0x1e200c00, Form::kFpSelect},
    {0xff000000, 0x1f000000, Form::kFpThreeSources},
    // Vectors.
    {0x9fe08400, 0x0e000400, Form::kVectorCopy},
    {0x9f200400, 0x0e200400, Form::kVectorSame},
    {0x9f208400, 0x0e008400, Form::kVectorSameExtra},
    {0x9f60c400, 0x0e400400, Form::kVectorSameHalf},
    {0xff3e0c00, 0x4e280800, Form::kVectorAes},
    {0x9f7e0c00, 0x0e780800, Form::kVectorMiscHalf},
    {0x9f3e0c00, 0x0e200800, Form::kVectorMisc},
    {0x9f3e0c00, 0x0e300800, Form::kVectorAcross},
    {0x9f200c00, 0x0e200000, Form::kVectorDifferent},
    {0xbf208c00, 0x0e000800, Form::kVectorPermute},
    {0xbfe08c00, 0x0e000000, Form::kVectorTable},
    {0xbfe08400, 0x2e000000, Form::kVectorExtract},
    {0x9ff80400, 0x0f000400, Form::kVectorImmediate},
    {0x9f800400, 0x0f000400, Form::kVectorShift},
    {0x9f000400, 0x0f000000, Form::kVectorIndexed},
    {0xfe000000, 0xce000000, Form::kVectorCrypto},
    {0xde000000, 0x5e000000, Form::kVectorScalar},
};

// The rows that a word can fit, by its group.
using Groups = std::array<std::vector<Row>, 16>;

Groups MakeGroups() {
  constexpr uint32_t kGroupBits = 0x1e000000;
  Groups groups;
  for (uint32_t group = 0; group < groups.size(); ++group) {
    for (const Row& row : kTable) {
      if (((row.value ^ group << 25) & row.mask & kGroupBits) == 0) groups[group].push_back(row);
    }
  }
  return groups;
}

}  // namespace

Form FormOf(uint32_t word) {
  static const Groups groups = MakeGroups();
  for (const Row& row : groups[Bits(word, 28, 25)]) {
    if ((word & row.mask) == row.value) return row.form;
  }
  return Form::kUnallocated;
}

Rows AllRows() { return {std::begin(kTable), std::end(kTable)}; }

const char* NameOf(Form form) {
  static constexpr const char* kNames[] = {
      "unallocated", "sve", "pc-relative", "add-sub-immediate", "add-tag", "min-max-immediate", "logical-immediate", "move-wide", "bitfield",
      "extract", "cond-branch", "exception", "hint", "barrier", "wait-timeout", "pstate", "sys", "sys-result", "msr", "mrs",
      "branch-register", "branch-register-pac", "exception-return", "branch-immediate", "compare-branch", "test-branch", "vector-multiple", "vector-multiple-post",
      "vector-single", "vector-single-post", "memory-tag", "exclusive", "ordered-unscaled", "literal", "pair", "unscaled", "post",
      "unprivileged", "pre", "atomic", "register-offset", "authenticated", "unsigned-offset", "logical-shifted", "add-sub-shifted",
      "add-sub-extended", "add-sub-carry", "rotate-into-flags", "evaluate-flags", "cond-compare-register", "cond-compare-immediate",
      "cond-select", "one-source", "two-sources", "three-sources", "fp-integer", "fp-fixed", "fp-one-source", "fp-compare", "fp-immediate",
      "fp-cond-compare", "fp-two-sources", "fp-select", "fp-three-sources", "vector-copy", "vector-same", "vector-same-extra",
      "vector-same-half", "vector-misc", "vector-misc-half", "vector-across", "vector-different", "vector-permute", "vector-table",
      "vector-extract", "vector-immediate", "vector-shift", "vector-indexed", "vector-aes", "vector-crypto", "vector-scalar"};
  static_assert(std::size(kNames) == static_cast<size_t>(Form::kCount));
  return kNames[static_cast<size_t>(form)];
}

bool LogicalImmediate(uint32_t n, uint32_t immr, uint32_t imms, uint32_t width, uint64_t* value) {
  if (width == 32 && n) return false;
  // The element's size is told by the highest zero of imms, below N.
  const uint32_t code = n << 6 | (~imms & 0x3f);
  if (code < 2) return false;
  uint32_t log = 6;
  while (!(code >> log)) --log;
  const uint32_t size = 1u << log, ones = (imms & (size - 1)) + 1, rotate = immr & (size - 1);
  if (ones == size) return false;
  uint64_t element = (uint64_t{1} << ones) - 1;
  const uint64_t mask = size == 64 ? ~uint64_t{0} : (uint64_t{1} << size) - 1;
  if (rotate) element = (element >> rotate | element << (size - rotate)) & mask;
  for (uint32_t filled = size; filled < 64; filled *= 2) element |= element << filled;
  *value = width == 32 ? element & 0xffffffff : element;
  return true;
}

namespace {

uint64_t Repeat(uint64_t element, uint32_t bits) {
  for (uint32_t filled = bits; filled < 64; filled *= 2) element |= element << filled;
  return element;
}

// Eight bits as a number of floating point: sign, exponent, four bits of fraction.
uint64_t Single(uint32_t imm8) {
  return uint64_t{imm8 >> 7} << 31 | (imm8 >> 6 & 1 ? uint64_t{0x3e000000} : uint64_t{0x40000000}) | uint64_t{imm8 & 0x3f} << 19;
}

uint64_t Double(uint32_t imm8) {
  return uint64_t{imm8 >> 7} << 63 | (imm8 >> 6 & 1 ? uint64_t{0x3fc0} << 48 : uint64_t{0x4000} << 48) | uint64_t{imm8 & 0x3f} << 48;
}

}  // namespace

bool VectorImmediate(uint32_t cmode, uint32_t op, uint32_t imm8, uint64_t* value) {
  const uint64_t v = imm8;
  if (cmode < 8) {
    *value = Repeat(v << 8 * (cmode >> 1), 32);
  } else if (cmode < 12) {
    *value = Repeat(v << 8 * (cmode >> 1 & 1), 16);
  } else if (cmode < 14) {
    *value = Repeat(cmode == 12 ? v << 8 | 0xff : v << 16 | 0xffff, 32);
  } else if (cmode == 14) {
    *value = 0;
    if (!op) {
      *value = Repeat(v, 8);
    } else {
      for (int i = 0; i < 8; ++i) *value |= imm8 >> i & 1 ? uint64_t{0xff} << 8 * i : 0;
    }
  } else {
    *value = op ? Double(imm8) : Repeat(Single(imm8), 32);
  }
  return true;
}

}  // namespace brink::a64
