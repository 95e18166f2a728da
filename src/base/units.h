// One parser for durations, sizes, numbers and CPU lists: every option of brink goes through these.
// Errors quote the text and name the accepted forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace brink {

// Decimal or 0x-hexadecimal, the whole text; overflow and blanks are errors.
StatusOr<uint64_t> ParseUint(std::string_view text);
// "10", "2.5ms", "3s", "1m", "1h", "100us", "7ns". Without a unit: `default_unit_ns` each.
StatusOr<uint64_t> ParseDurationNs(std::string_view text, uint64_t default_unit_ns = 1'000'000'000);
// "4096", "64K", "8M", "1G", with or without B or iB (powers of 1024).
StatusOr<uint64_t> ParseSize(std::string_view text);
// "0-3,7" -> {0,1,2,3,7}, sorted, without repeats. Ids above 65,535 are refused.
StatusOr<std::vector<int>> ParseCpuList(std::string_view text);

// "1.5 GiB", "317 B": for people, three significant digits.
std::string FormatSize(uint64_t bytes);
// "1.20 s", "35 us".
std::string FormatDuration(uint64_t ns);

}  // namespace brink
