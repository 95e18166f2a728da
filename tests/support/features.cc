#include "support/features.h"

#include <map>

#include <nlohmann/json.hpp>

#include "support/process.h"

namespace brink::testing_support {
namespace {

struct Answer {
  bool on = false;
  std::string reason;
};

const std::map<std::string, Answer>& Answers() {
  static const std::map<std::string, Answer> answers = [] {
    std::map<std::string, Answer> out;
    ProcessResult result = RunBrink({"doctor", "--json"});
    auto json = nlohmann::json::parse(result.out, nullptr, false);
    if (json.is_discarded()) return out;
    for (const auto& feature : json["features"]) {
      out[feature["name"]] = {feature["on"], feature["reason"].is_null() ? "" : feature["reason"].get<std::string>()};
    }
    return out;
  }();
  return answers;
}

}  // namespace

bool HasFeature(const std::string& name) {
  auto it = Answers().find(name);
  if (it == Answers().end()) {
    ADD_FAILURE() << "brink doctor --json does not know " << name;
    return false;
  }
  return it->second.on;
}

std::string WhyNot(const std::string& name) {
  auto it = Answers().find(name);
  return it == Answers().end() ? name : name + ": " + it->second.reason;
}

}  // namespace brink::testing_support
