// What this build is.
#pragma once

#include <string>

namespace brink::cli {

// "brink 0.1.0 (git abc1234)"; the revision is "unknown" outside a checkout.
std::string VersionLine();
// The GNU build-id of the running program in hex; empty when it was linked without one.
std::string BuildId();
// What `brink --version` prints: the line, build-id, machine and sources, libraries, commands; a line each.
std::string VersionText();

}  // namespace brink::cli
