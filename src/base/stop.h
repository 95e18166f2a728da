// The names of stop reasons: the same in statistics, reports, tests and JSON. One table.
#pragma once

#include <string_view>

#include "brink/abi/event.h"

namespace brink {

// Of an enum brink_stop: "full", "unknown-condition"; "?" for what is none.
std::string_view StopReasonName(int stop);
// What it means, for people: "a branch depends on a value that is not known".
std::string_view StopReasonText(int stop);

}  // namespace brink
