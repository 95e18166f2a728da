// The unit that is installed: systemd understands every line of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <iterator>

#include "support/process.h"

namespace brink::agent_tests {
namespace {


TEST(AgentService, TheUnitIsVerified) {
  if (testing_support::Run({"systemd-analyze", "--version"}).status != 0) GTEST_SKIP() << "needs systemd-analyze";
  const std::string unit = std::filesystem::path(testing_support::BrinkBinary()).parent_path() / "systemd/brink-agent.service";
  std::ifstream in(unit);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(text.empty()) << unit;
  // Started from where it was built: it is not installed yet.
  const std::string key = "ExecStart=";
  const size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  const size_t space = text.find(' ', at);
  EXPECT_EQ(std::filesystem::path(text.substr(at + key.size(), space - at - key.size())).filename(), "brink");
  text.replace(at + key.size(), space - at - key.size(), testing_support::BrinkBinary());
  testing_support::TempDir dir;
  const std::string copy = dir.File("brink-agent.service");
  std::ofstream(copy) << text;
  auto verified = testing_support::Run({"systemd-analyze", "verify", "--man=no", copy});
  EXPECT_EQ(verified.status, 0);
  // It also speaks of other units that this one pulls in, which are this machine's.
  std::istringstream lines(verified.out + verified.err);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.find("brink-agent.service"), line.npos) << line;
  // What the hardening is worth, by systemd's own measure (0 best, 10 worst).
  auto judged = testing_support::Run({"systemd-analyze", "security", "--offline=true", "--threshold=45", copy});
  EXPECT_EQ(judged.status, 0) << judged.out;
}

}  // namespace
}  // namespace brink::agent_tests
