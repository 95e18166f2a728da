// Runs brink snap on a mode of the target and reads its lines of JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/process.h"

namespace brink::snap_tests {

struct Snapped {
  testing_support::ProcessResult process;
  std::vector<nlohmann::json> captures;
};

// brink snap ARGS --json -- SELF --target MODE
Snapped Snap(std::vector<std::string> args, const std::string& mode);
// Path of this program.
std::string Self();
// Link-time names of the functions on a capture's chain ("user_chain" or "kernel_chain"), innermost first.
std::vector<std::string> ChainOf(const nlohmann::json& capture, const char* which);

}  // namespace brink::snap_tests
