// What the snap tests capture: the test program itself, started with --target MODE.
#pragma once

#include <string>

namespace brink::snap_tests {

// Does what `mode` says and returns the exit status. Modes are in target.cc.
int RunTarget(const std::string& mode);

}  // namespace brink::snap_tests
