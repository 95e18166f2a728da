#include "snap/tests.h"

#include <algorithm>
#include <vector>

namespace brink::snap {
namespace {

// How many helper calls and memory reads a field costs, roughly.
int CostOf(const brink_filter_op& op) {
  switch (op.field) {
    case BRINK_FF_PID: case BRINK_FF_TID: case BRINK_FF_CPU: return 0;
    case BRINK_FF_UID: case BRINK_FF_CGROUP: return 1;
    case BRINK_FF_COMM: case BRINK_FF_TIME: return 2;
    case BRINK_FF_IP: return 4;
    default: return 3;
  }
}

}  // namespace

uint32_t OrderTests(brink_filter_prog* filter) {
  std::vector<brink_filter_op> tests, joins;
  for (uint32_t i = 0; i < std::min<uint32_t>(filter->sample_ops, BRINK_FILTER_MAX_OPS); ++i) {
    const brink_filter_op& op = filter->sample[i];
    if (op.code >= BRINK_FOP_RANGE && op.code <= BRINK_FOP_IS_UNKNOWN) tests.push_back(op);
    else if (op.code == BRINK_FOP_AND) joins.push_back(op);
    else return 0;
  }
  if (tests.empty() || tests.size() > BRINK_SNAP_TESTS || joins.size() + 1 != tests.size()) return 0;
  std::stable_sort(tests.begin(), tests.end(), [](const auto& a, const auto& b) { return CostOf(a) < CostOf(b); });
  std::copy(joins.begin(), joins.end(), std::copy(tests.begin(), tests.end(), filter->sample));
  return static_cast<uint32_t>(tests.size());
}

}  // namespace brink::snap
