// Words for what the kernel says of a probe on one of its functions.
#pragma once

#include <string>

#include "base/status.h"

namespace brink::snap {

// `error` is an errno, `kind` the trigger's. An unknown function is NOT_FOUND with the nearest names.
Status KernelProbeError(int error, const std::string& kind, const std::string& function);

}  // namespace brink::snap
