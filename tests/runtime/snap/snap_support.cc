#include "snap_support.h"

#include <unistd.h>

#include <climits>
#include <sstream>

namespace brink::snap_tests {

std::string Self() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "";
}

Snapped Snap(std::vector<std::string> args, const std::string& mode) {
  args.insert(args.begin(), "snap");
  args.insert(args.end(), {"--json", "--", Self(), "--target", mode});
  Snapped snapped;
  snapped.process = testing_support::RunBrink(args, {.timeout = std::chrono::seconds(120)});
  std::istringstream lines(snapped.process.out);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) snapped.captures.push_back(std::move(json));
  }
  return snapped;
}

std::vector<std::string> ChainOf(const nlohmann::json& capture, const char* which) {
  std::vector<std::string> names;
  for (const nlohmann::json& at : capture.at(which)) names.push_back(at.at("symbol").is_string() ? at.at("symbol").get<std::string>() : "?");
  return names;
}

}  // namespace brink::snap_tests
