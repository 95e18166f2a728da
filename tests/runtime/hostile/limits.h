// Runs of brink on input that means harm, with what must hold of every one of them.
#pragma once

#include <string>
#include <vector>

#include "support/process.h"

namespace brink::hostile {

inline constexpr double kMostCpuSeconds = 10;  // of the processor: a busy machine takes longer
inline constexpr unsigned kMostSeconds = 120;      // of the clock, then it counts as hung
inline constexpr long kMostKib = 256 << 10;

// Runs brink and expects: an end by itself with 0, 1 or 3, within the limits, and nothing in its output that a terminal
// would obey. `binary`: standard output is no text (pprof, perf.data).
testing_support::ProcessResult Harmless(const std::vector<std::string>& words, bool binary = false);

// The first piece of `text` that a terminal would obey (control characters but line ends and tabs, C1, bidirectional
// overrides) or that is no UTF-8; "" if there is none.
std::string Unsafe(const std::string& text);

}  // namespace brink::hostile
