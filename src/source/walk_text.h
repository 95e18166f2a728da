// Where the loaded walker's hot functions lie in the kernel (struct brink_walk_text).
#pragma once

#include <vector>

#include "brink/abi/walk.h"

struct bpf_program;

namespace brink {

// Pieces of at most BRINK_WALK_TEXT_BYTES, hottest functions first, at most BRINK_WALK_TEXTS. Empty where the kernel does
// not say (no right to see its addresses): then walks are slower in large programs, and nothing else.
std::vector<brink_walk_text> WalkTexts(const bpf_program* program);

}  // namespace brink
