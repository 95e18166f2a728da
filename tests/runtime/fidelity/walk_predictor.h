// The walker's host build as a predictor.
#pragma once

#include "truth.h"

namespace brink::fidelity {

// One walker a process seen, so that lifted code is kept as the kernel keeps it.
Predictor WalkPredictor(uint32_t depth);

}  // namespace brink::fidelity
