// The programs that walks are judged on: what every Debian has, given enough input to be busy for a second.
#pragma once

#include <string>
#include <vector>

#include "truth.h"

namespace brink::fidelity {

// Writes inputs into `folder` and returns the programs that are installed here. `throwing`: path of a C++ program with
// exceptions. The names of those that are missing go into `missing`.
std::vector<Program> MakePrograms(const std::string& folder, const std::string& throwing, std::vector<std::string>* missing);

}  // namespace brink::fidelity
