// tracefs, wherever it is.
#pragma once

#include <string>

namespace brink {

// A path under which "events/" lies: a mounted tracefs, or, with CAP_SYS_ADMIN, an instance mounted nowhere and held
// open by this process (nothing of the system changes). Empty where there is neither. Found once; thread safe.
const std::string& TracefsRoot();
// True where a mounted one is readable, without the private instance.
bool TracefsMounted();

}  // namespace brink
