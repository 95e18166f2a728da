#include "cli/version.h"

#ifndef BRINK_VERSION
#define BRINK_VERSION "unknown"
#endif
#ifndef BRINK_REVISION
#define BRINK_REVISION "unknown"
#endif

namespace brink::cli {

std::string VersionLine() { return "brink " BRINK_VERSION " (git " BRINK_REVISION ")"; }

}  // namespace brink::cli
