// Events of the monitor in words and as JSON (docs/schema/cfi.json).
#pragma once

#include <string>
#include <string_view>

#include "cfi/replay.h"

namespace brink::cfi {

std::string EventJson(const Event& event);
// Draws the path around the broken edge, newest last.
std::string EventText(const Event& event, size_t number);
std::string SummaryJson(const ReplayReport& report);
std::string SummaryText(const ReplayReport& report);

// What an event (one line of JSON) means: the rule, what was expected, what would have excused it, how sure it is and what
// to look at. INVALID_ARGUMENT for what is no event.
StatusOr<std::string> Explain(std::string_view line);

}  // namespace brink::cfi
