// Findings for people and for programs.
#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "base/ascii_json.h"
#include "brbe/check.h"

namespace brink::brbe {
namespace {

const char* LevelName(Finding::Level level) {
  switch (level) {
    case Finding::Level::kOk: return "ok";
    case Finding::Level::kWarning: return "warning";
    case Finding::Level::kProblem: return "problem";
    default: return "info";
  }
}

}  // namespace

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) {
    absl::StrAppendFormat(&out, "%-8s %-10s %s", LevelName(f.level), f.topic, f.text);
    if (!f.hangs_on.empty()) {
      out += "  [hangs on ";
      for (size_t i = 0; i < f.hangs_on.size(); ++i) out += (i ? ", " : "") + f.hangs_on[i];
      out += ", not given]";
    }
    out += '\n';
  }
  return out;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = {{"schema", "brink.brbe.check.v1"}};
  auto list = nlohmann::ordered_json::array();
  for (const Finding& f : findings) list.push_back({{"level", LevelName(f.level)}, {"topic", f.topic}, {"text", f.text}, {"hangs_on", f.hangs_on}});
  json["findings"] = std::move(list);
  return AsciiJson(json);
}

}  // namespace brink::brbe
