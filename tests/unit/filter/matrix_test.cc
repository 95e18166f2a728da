// Every filter of the matrix on stacks of real hardware, against a brute-force evaluator written here from the words
// of the documentation (no code of the filter module).
#include <gtest/gtest.h>

#include "filter/parser.h"
#include "filter/sample_filter.h"
#include "support/filter_matrix.h"
#include "support/status_matchers.h"

namespace brink::filter {
namespace {

using testing_support::IsOk;
using testing_support::MatrixCell;

// -1 unknown, 0 no, 1 yes.
int Brute(const MatrixCell& cell, const BranchEntry& e) {
  int result = 1;
  auto both = [&](int truth) { result = result == 0 || truth == 0 ? 0 : result == -1 || truth == -1 ? -1 : 1; };
  if (cell.kinds) {
    unsigned type = e.info >> 20 & 15;
    int kind = -1;
    if (e.info & 8) {
      kind = 11;
    } else {
      switch (type) {
        case 1: kind = 1; break;             // cond
        case 2: kind = 2; break;             // uncond
        case 3: kind = 3; break;             // ind
        case 4: case 9: kind = 4; break;     // call, cond_call
        case 5: kind = 5; break;             // ind_call
        case 6: case 10: kind = 6; break;    // ret, cond_ret
        case 7: kind = 7; break;             // syscall
        case 8: kind = 8; break;             // sysret
        case 11: kind = 10; break;           // eret
        case 12: case 13: case 15: kind = 9; break;
      }
    }
    bool in = kind >= 0 && (cell.kinds >> kind & 1);
    both(kind < 0 ? -1 : in != cell.exclude);
  }
  if (cell.priv) {
    int priv = static_cast<int>(e.info >> 30 & 7);
    if (priv == 0 || priv > 3) priv = e.to >= 0x8000000000000000 ? 2 : 1;
    both(e.to == 0 ? -1 : priv == cell.priv);
  }
  bool mispredicted = e.info & 1, predicted = e.info & 2;
  if (cell.prediction == 1) both(mispredicted ? 1 : predicted ? 0 : -1);
  if (cell.prediction == 2) both(mispredicted ? 0 : predicted ? 1 : -1);
  if (cell.prediction == 3) both(!mispredicted && !predicted);
  return result;
}

TEST(Matrix, RecordedStacksEqualBruteForce) {
  auto stacks = testing_support::RecordedStacks(150);
  if (stacks.empty()) GTEST_SKIP() << "the shared recordings are not here";
  auto cells = testing_support::Matrix();
  ASSERT_EQ(cells.size(), 11u * 12 + 10 * 12 - 1);
  size_t kept_somewhere = 0;
  for (const MatrixCell& cell : cells) {
    auto expr = Parse(cell.text);
    ASSERT_THAT(expr, IsOk()) << cell.text;
    SampleFilter filter(*expr);
    uint64_t unknown = 0, kept_all = 0;
    for (const auto& stack : stacks) {
      std::vector<BranchEntry> want, got = stack;
      for (const BranchEntry& e : stack) {
        int truth = Brute(cell, e);
        unknown += truth < 0;
        if (truth == 1) want.push_back(e);
      }
      got.resize(filter.FilterRecords({}, got));
      ASSERT_EQ(got.size(), want.size()) << cell.text;
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].from, want[i].from) << cell.text;
        ASSERT_EQ(got[i].info, want[i].info) << cell.text;
      }
      kept_all += got.size();
    }
    ASSERT_EQ(filter.counters().records_unknown, unknown) << cell.text;
    kept_somewhere += kept_all > 0;
  }
  // A matrix that keeps nothing would prove nothing.
  EXPECT_GT(kept_somewhere, cells.size() / 2);
}

}  // namespace
}  // namespace brink::filter
