#include "background_agent.h"

namespace brink::agent_tests {

namespace {

std::vector<std::string> AgentArgs(const std::string& dir, const std::vector<std::string>& options) {
  std::vector<std::string> args = {"agent", "--socket", dir + "/agent.sock", "--dir", dir + "/files"};
  args.insert(args.end(), options.begin(), options.end());
  return args;
}

}  // namespace

BackgroundAgent::BackgroundAgent(const std::string& dir, std::vector<std::string> options) : dir_(dir), process_(AgentArgs(dir, options), "ready, Ctrl-C ends") {}

testing_support::ProcessResult BackgroundAgent::Ctl(std::vector<std::string> words) const {
  words.insert(words.begin(), {"ctl", "--socket", socket()});
  return testing_support::RunBrink(words, {.timeout = std::chrono::seconds(60)});
}

nlohmann::json BackgroundAgent::Ask(std::vector<std::string> words) const {
  words.insert(words.begin(), "--json");
  auto result = Ctl(words);
  return result.status == 0 ? nlohmann::json::parse(result.out, nullptr, false) : nlohmann::json();
}

}  // namespace brink::agent_tests
