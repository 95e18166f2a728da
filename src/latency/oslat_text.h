// The result of `brink latency busy` as oslat (rt-tests) prints it.
#pragma once

#include <string>
#include <vector>

#include "latency/outputs.h"

namespace brink::latency {

// Turns of a CPU's loop by microseconds: 1, 2, ... count, the last with all above. Turns without a gap are in the first.
std::vector<uint64_t> OslatBuckets(const ThreadResult& cpu, size_t count);

// `count` 4..1024 buckets; with `omit_zeros` (oslat's -z) lines without a value are left out.
std::string OslatText(const Document& document, size_t count, bool omit_zeros);

}  // namespace brink::latency
