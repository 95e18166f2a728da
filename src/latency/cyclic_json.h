// cyclictest's JSON, file_version 1, key for key (the two keys that end in a colon too), but always valid: texts are
// escaped, and a thread without samples has null for its average.
#pragma once

#include <string>

#include "latency/result.h"

namespace brink::latency {

std::string CyclicJson(const Result& result, const Config& config, int return_code);

}  // namespace brink::latency
