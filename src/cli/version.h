// What this build is.
#pragma once

#include <string>

namespace brink::cli {

// "brink 0.1.0 (git abc1234)"; the revision is "unknown" outside a checkout.
std::string VersionLine();

}  // namespace brink::cli
