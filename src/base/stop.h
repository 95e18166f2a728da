// The names of stop reasons: the same in statistics, reports, tests and JSON.
#pragma once

#include <string_view>

#include "brink/abi/event.h"

namespace brink {

// Of an enum brink_stop: "full", "unknown-condition"; "?" for what is none.
std::string_view StopReasonName(int stop);

}  // namespace brink
