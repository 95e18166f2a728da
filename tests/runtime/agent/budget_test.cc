// Budgets, enforced by a running agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "background_agent.h"
#include "support/features.h"

namespace brink::agent_tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing_support::TempDir;

TEST(AgentBudgets, CapturesASecond) {
  SKIP_UNLESS("bpf.raw_tp");
  TempDir dir;
  BackgroundAgent agent(dir.path(), {"--window", "0", "--max-cpu", "0", "--max-rate", "20"});
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto begin = std::chrono::steady_clock::now();
  auto started = agent.Ask({"--name", "storm.jsonl", "start", "snap", "--on", "syscall:getppid", "--no-chain"});
  ASSERT_TRUE(started.is_object());
  testing_support::Run({"/usr/bin/python3", "-c", "import os,time\ne=time.time()+2\nwhile time.time()<e: os.getppid()"});
  auto ended = agent.Ask({"stop", std::to_string(started["job"].get<int>())});
  ASSERT_TRUE(ended.is_object());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // A burst, and then the rate.
  EXPECT_LE(ended["summary"]["captures"].get<double>(), 20 * (seconds + 2)) << ended.dump();
  EXPECT_GE(ended["summary"]["captures"], 20);
  EXPECT_GT(ended["summary"]["triggers"]["trigger_0_limited"], 1000) << "the kernel side keeps the rate";
}

TEST(AgentBudgets, SamplesASecondAreJudgedBefore) {
  SKIP_UNLESS("perf.cpu_clock");
  TempDir dir;
  BackgroundAgent agent(dir.path(), {"--window", "0", "--max-rate", "500"});
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto refused = agent.Ctl({"start", "record", "-a", "-F", "4000", "--source", "none"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("more than the agent's budget of 500 (--max-rate): ask for at most -F " + std::to_string(500 / sysconf(_SC_NPROCESSORS_ONLN))));
  // It has written nothing, and the list of jobs tells of no file.
  const auto jobs = agent.Ask({"status"})["jobs"];
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_TRUE(jobs[0]["file"].is_null()) << jobs.dump();
}

TEST(AgentBudgets, BytesWritten) {
  SKIP_UNLESS("bpf.raw_tp");
  TempDir dir;
  BackgroundAgent agent(dir.path(), {"--window", "0", "--max-cpu", "0", "--max-bytes", "64K"});
  ASSERT_TRUE(agent.ready()) << agent.text();
  ASSERT_TRUE(agent.Ask({"--name", "big.jsonl", "start", "snap", "--on", "syscall:getppid"}).is_object());
  testing_support::Run({"/usr/bin/python3", "-c", "import os\nfor i in range(3000): os.getppid()"});
  EXPECT_TRUE(Eventually([&] { return agent.Ask({"status"})["jobs"][0]["ended"].is_string(); }));
  EXPECT_THAT(agent.Ask({"status"})["jobs"][0]["ended"].get<std::string>(), HasSubstr("budget of bytes"));
  struct stat info = {};
  ASSERT_EQ(stat((agent.folder() + "/big.jsonl").c_str(), &info), 0);
  EXPECT_LE(info.st_size, 64 << 10);
  EXPECT_GT(info.st_size, 0);
}

TEST(AgentBudgets, CpuTimeOfItsOwn) {
  SKIP_UNLESS("bpf.raw_tp");
  TempDir dir;
  // Naming and printing 10,000 captures a second is more than 1 % of a CPU anywhere.
  BackgroundAgent agent(dir.path(), {"--window", "0", "--max-cpu", "1", "--max-rate", "0"});
  ASSERT_TRUE(agent.ready()) << agent.text();
  ASSERT_TRUE(agent.Ask({"--name", "busy.jsonl", "start", "snap", "--on", "syscall:*:enter"}).is_object());
  EXPECT_TRUE(Eventually([&] {
    testing_support::Run({"/usr/bin/python3", "-c", "import os\nfor i in range(3000): os.getppid()"});
    auto status = agent.Ask({"status"});
    return status["budget"]["pauses"] > 0 && status["jobs"][0]["state"] == "paused";
  }));
  // Paused, nothing is captured.
  auto captures = [&] { return agent.Ask({"status"})["jobs"][0]["captures"].get<uint64_t>(); };
  EXPECT_TRUE(Eventually([&] {
    const uint64_t before = captures();
    testing_support::Run({"/usr/bin/python3", "-c", "import os\nfor i in range(3000): os.getppid()"});
    return captures() == before;
  }));
}

TEST(AgentBudgets, JobsAndClients) {
  SKIP_UNLESS("bpf.raw_tp");
  TempDir dir;
  BackgroundAgent agent(dir.path(), {"--window", "0", "--max-jobs", "1", "--max-clients", "1"});
  ASSERT_TRUE(agent.ready()) << agent.text();
  ASSERT_TRUE(agent.Ask({"start", "snap", "--on", "exec"}).is_object());
  auto refused = agent.Ctl({"start", "snap", "--on", "exec"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("1 jobs run"));
}

}  // namespace
}  // namespace brink::agent_tests
