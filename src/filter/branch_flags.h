// perf's -j: names of branch filters, their branch_sample_type bits, and the same thing as an expression.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "filter/expr.h"

namespace brink::filter {

// branch_sample_type bits (kernel ABI).
enum BranchSampleBits : uint64_t {
  kBranchUser = 1u << 0, kBranchKernel = 1u << 1, kBranchHv = 1u << 2, kBranchAny = 1u << 3, kBranchAnyCall = 1u << 4,
  kBranchAnyReturn = 1u << 5, kBranchIndCall = 1u << 6, kBranchAbortTx = 1u << 7, kBranchInTx = 1u << 8,
  kBranchNoTx = 1u << 9, kBranchCond = 1u << 10, kBranchCallStack = 1u << 11, kBranchIndJump = 1u << 12,
  kBranchCall = 1u << 13, kBranchNoFlags = 1u << 14, kBranchNoCycles = 1u << 15, kBranchTypeSave = 1u << 16,
  kBranchHwIndex = 1u << 17, kBranchPrivSave = 1u << 18, kBranchCounters = 1u << 19,
};
inline constexpr uint64_t kBranchPrivMask = kBranchUser | kBranchKernel | kBranchHv;
inline constexpr uint64_t kBranchKindMask = kBranchAny | kBranchAnyCall | kBranchAnyReturn | kBranchIndCall | kBranchCond |
                                            kBranchIndJump | kBranchCall | kBranchAbortTx | kBranchCallStack;

// "any,u,ind_call" -> bits. No kind named: ANY. Unknown names get the nearest ones, with the column in the list.
StatusOr<uint64_t> ParseBranchFlags(std::string_view list);
// "any,u,k" in bit order.
std::string BranchFlagNames(uint64_t bits);

// Kinds that the kind bits let through, as enum Kind bits (0 = no kind bit given).
uint64_t KindsOfFlags(uint64_t bits);
// What the bits select, in the language: union of kinds, privilege of the target, transaction state. TRUE where the
// bits select everything. Bits that choose what is stored (no_flags, save_type, ...) select nothing.
Expr ExprOfFlags(uint64_t bits);

}  // namespace brink::filter
