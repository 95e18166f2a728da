// What `brink script -F` can be asked for: perf's names.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace brink::script {

enum Field : uint32_t {
  kComm = 1 << 0, kPid = 1 << 1, kTid = 1 << 2, kTime = 1 << 3, kCpu = 1 << 4, kPeriod = 1 << 5, kEvent = 1 << 6,
  kAddr = 1 << 7, kIp = 1 << 8, kSym = 1 << 9, kBrstack = 1 << 10, kBrstacksym = 1 << 11, kWeight = 1 << 12,
};

// Comma-separated names. The error names the wrong one and what there is.
StatusOr<uint32_t> ParseFields(std::string_view text);
// Name of one field, as the user writes it.
std::string_view FieldName(Field field);
// PERF_SAMPLE_* bits that an event must have for `field`; 0: none.
uint64_t SampleBitsFor(Field field);

}  // namespace brink::script
