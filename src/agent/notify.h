// The service manager's notification socket (sd_notify), by hand: three words do not need a library.
#pragma once

#include <string_view>

namespace brink::agent {

// Does nothing outside of a service ($NOTIFY_SOCKET).
void NotifyManager(std::string_view state);

}  // namespace brink::agent
