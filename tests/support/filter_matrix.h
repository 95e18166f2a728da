// The generated matrix of filters (kinds x privilege x include/exclude x prediction) and real stacks to run them on.
#pragma once

#include <string>
#include <vector>

#include "base/branch.h"

namespace brink::testing_support {

// One cell of the matrix, with what it means spelled out for a brute-force evaluator.
struct MatrixCell {
  uint64_t kinds = 0;    // bits of enum Kind; 0 = no test
  bool exclude = false;  // of `kinds`
  int priv = 0;          // 0 none, 1 user, 2 kernel
  int prediction = 0;    // 0 none, 1 mispredicted, 2 predicted, 3 unknown
  std::string text;      // the same as an expression
};
std::vector<MatrixCell> Matrix();

// Stacks recorded on real hardware (shared recordings, at most `limit` of each file), empty where they are absent. The
// recordings are older than the kind bits: kinds are dealt out by address, one in eight unknown.
std::vector<std::vector<BranchEntry>> RecordedStacks(size_t limit);

// `count` stacks of 32 with every value of every field, the same on each call: where no recordings are (guests).
std::vector<std::vector<BranchEntry>> MadeUpStacks(size_t count);

}  // namespace brink::testing_support
