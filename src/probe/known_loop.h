// A loop whose every taken branch is known: what branch hardware says about it can be checked.
#pragma once

#include <cstdint>

#include "base/branch.h"

namespace brink {

// Runs the loop. One iteration takes one call, one return, one backward jump and, half of the time and not
// predictably, one conditional jump.
void RunKnownLoop(uint64_t iterations);

// Is the entry one of the loop's four branches (exact addresses, kind told through `kind`)?
bool IsKnownBranch(const brink_branch& entry, Kind* kind = nullptr);
// Does the entry start inside the loop's code? Such an entry that is not known is wrong.
bool FromKnownLoop(const brink_branch& entry);

// Called by nobody else: breakpoints and uprobes are put here.
extern "C" int brink_probe_target(int value);

}  // namespace brink
