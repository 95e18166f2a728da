// Conditions that need no interpreter in the kernel.
#pragma once

#include <cstdint>

#include "brink/abi/snap.h"

namespace brink::snap {

// Where `filter` is at most BRINK_SNAP_TESTS tests that must all hold, and nothing else: puts them first, the cheapest
// ahead, and returns how many there are. 0 and no change for any other program. The program means the same as before.
uint32_t OrderTests(brink_filter_prog* filter);

}  // namespace brink::snap
