// The code between two branch records.
#pragma once

#include "harness.h"

namespace brink::guest {

// What is between two neighbouring records: nothing but instructions that go on to the next, as many as the clock says.
struct RangeResult { bool straight = false; size_t instructions = 0; bool repeats = false; };
// Decodes from `from` to `to` inclusive.
RangeResult CheckRange(CodeReader& code, uint64_t from, uint64_t to);

}  // namespace brink::guest
