// The classes of A64 encodings: which of the architecture's groups an instruction word belongs to.
//
// Our own table of the architecture's top-level groups (bits 28 to 25) and of the classes in them; no library decodes.
// Pure. What a class does is told by its form; fields of a word are read with Bits and SignedBits.
#pragma once

#include <cstdint>

namespace brink::a64 {

enum class Form : uint8_t {
  kUnallocated,
  kSve,  // SVE and SME: a state of its own that nothing here follows
  // Data processing, immediate.
  kPcRelative, kAddSubImmediate, kAddTag, kMinMaxImmediate, kLogicalImmediate, kMoveWide, kBitfield, kExtract,
  // Branches, exceptions, system.
  kCondBranch, kException, kHint, kBarrier, kWaitTimeout, kPstate, kSys, kSysResult, kMsr, kMrs, kBranchRegister, kBranchRegisterPac, kExceptionReturn,
  kBranchImmediate, kCompareBranch, kTestBranch,
  // Loads and stores.
  kVectorMultiple, kVectorMultiplePost, kVectorSingle, kVectorSinglePost, kMemoryTag, kExclusive, kOrderedUnscaled, kLiteral, kPair,
  kUnscaled, kPost, kUnprivileged, kPre, kAtomic, kRegisterOffset, kAuthenticated, kUnsignedOffset,
  // Data processing, register.
  kLogicalShifted, kAddSubShifted, kAddSubExtended, kAddSubCarry, kRotateIntoFlags, kEvaluateFlags, kCondCompareRegister,
  kCondCompareImmediate, kCondSelect, kOneSource, kTwoSources, kThreeSources,
  // Scalar floating point.
  kFpInteger, kFpFixed, kFpOneSource, kFpCompare, kFpImmediate, kFpCondCompare, kFpTwoSources, kFpSelect, kFpThreeSources,
  // Vectors.
  kVectorCopy, kVectorSame, kVectorSameExtra, kVectorSameHalf, kVectorMisc, kVectorMiscHalf, kVectorAcross, kVectorDifferent,
  kVectorPermute, kVectorTable, kVectorExtract, kVectorImmediate, kVectorShift, kVectorIndexed, kVectorAes, kVectorCrypto, kVectorScalar,
  kCount
};

// The form of a word. A word of a form other than kUnallocated and kSve may still be unallocated by its fields.
Form FormOf(uint32_t word);
const char* NameOf(Form form);

constexpr uint32_t Bits(uint32_t word, int high, int low) { return word >> low & ((uint64_t{1} << (high - low + 1)) - 1); }
constexpr uint32_t Bit(uint32_t word, int bit) { return word >> bit & 1; }
constexpr int64_t SignedBits(uint32_t word, int high, int low) {
  return static_cast<int64_t>(static_cast<uint64_t>(word) << (63 - high)) >> (63 - high + low);
}

// Register fields of most encodings.
constexpr uint32_t Rd(uint32_t word) { return word & 31; }
constexpr uint32_t Rn(uint32_t word) { return Bits(word, 9, 5); }
constexpr uint32_t Rm(uint32_t word) { return Bits(word, 20, 16); }
constexpr uint32_t Ra(uint32_t word) { return Bits(word, 14, 10); }

// One row of the table: words whose bits of `mask` are `value`. The first row that fits counts.
struct Row {
  uint32_t mask;
  uint32_t value;
  Form form;
};
// All rows, for tests that go through every class.
struct Rows {
  const Row* begin;
  const Row* end;
};
Rows AllRows();

// Immediates in the encodings' own codings.
// N:immr:imms of logical operations; false where reserved.
bool LogicalImmediate(uint32_t n, uint32_t immr, uint32_t imms, uint32_t width, uint64_t* value);
// The 64 bits of a vector's modified immediate (cmode, op, abcdefgh); false where reserved.
bool VectorImmediate(uint32_t cmode, uint32_t op, uint32_t imm8, uint64_t* value);

}  // namespace brink::a64
