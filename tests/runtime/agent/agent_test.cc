// The agent and its client, on the real kernel: jobs, streams, the flight recorder, metrics, and what is left behind.
#include "background_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "agent/socket.h"
#include "support/bpf_left.h"
#include "support/features.h"

namespace brink::agent_tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing_support::TempDir;

// Few samples, no walk: tests of the service, not of the source.
const std::vector<std::string> kSmall = {"--window", "5s", "--window-source", "none", "--window-rate", "99", "--max-cpu", "0"};
const std::vector<std::string> kNoFlight = {"--window", "0", "--max-cpu", "0"};

std::vector<nlohmann::json> Lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line, nullptr, false));
  return lines;
}

std::string Slurp(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Agent : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("bpf.raw_tp"); }
  // Children of this process that make `count` execs, one after another.
  void Execs(int count) {
    for (int i = 0; i < count; ++i) testing_support::Run({"/bin/true"});
  }
  TempDir dir_;
};

TEST_F(Agent, TellsItsStatusAndEndsClean) {
  BackgroundAgent agent(dir_.path(), kSmall);
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto status = agent.Ask({"status"});
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["schema"], "brink.agent.status.v1");
  EXPECT_EQ(status["pid"], agent.pid());
  EXPECT_EQ(status["flight"]["source"], "none");
  EXPECT_THAT(agent.Ctl({"status"}).out, HasSubstr("flight recorder: none"));
  struct stat info;
  ASSERT_EQ(stat(agent.socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto programs = testing_support::ProgramsHeldBy(agent.pid());
  EXPECT_FALSE(programs.empty());
  EXPECT_EQ(agent.End(SIGTERM), 0);
  EXPECT_NE(access(agent.socket().c_str(), F_OK), 0);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST_F(Agent, StreamsCapturesToSeveralClients) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  // Both end after three captures; a third client sees them run.
  std::vector<std::thread> clients;
  std::vector<testing_support::ProcessResult> results(2);
  for (size_t i = 0; i < 2; ++i) clients.emplace_back([&, i] { results[i] = agent.Ctl({"--json", "snap", "--on", "exec", "--if", "pid != 0", "--count", "3"}); });
  EXPECT_TRUE(Eventually([&] {
    auto status = agent.Ask({"status"});
    size_t running = 0;
    for (const auto& job : status["jobs"]) running += job["state"] == "running";
    return running == 2;
  }));
  Execs(6);
  for (std::thread& client : clients) client.join();
  for (const auto& result : results) {
    EXPECT_EQ(result.status, 0) << result.err;
    auto captures = Lines(result.out);
    EXPECT_EQ(captures.size(), 3u);
    for (const auto& capture : captures) EXPECT_EQ(capture["schema"], "brink.snap.v1");
  }
}

TEST_F(Agent, ARecordingOutlivesItsClientAndIsReadable) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto started = agent.Ask({"--name", "mine.data", "start", "record", "-a", "-F", "499", "--source", "none", "-g"});
  ASSERT_TRUE(started.is_object());
  EXPECT_EQ(started["file"], agent.folder() + "/mine.data");
  // The client has ended; work goes on.
  const std::string job = std::to_string(started["job"].get<int>());
  EXPECT_TRUE(Eventually([&] {
    Execs(1);
    auto status = agent.Ask({"status"});
    return status["jobs"][0]["captures"] > 0;
  }));
  auto ended = agent.Ask({"stop", job});
  ASSERT_TRUE(ended.is_object());
  EXPECT_THAT(ended["reason"].get<std::string>(), HasSubstr("stopped by pid"));
  EXPECT_GT(ended["summary"]["samples_written"], 0);
  auto script = testing_support::RunBrink({"script", "-i", agent.folder() + "/mine.data", "-F", "comm,ip"});
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_FALSE(script.out.empty());
  EXPECT_THAT(agent.Ctl({"stop", job}).err, HasSubstr("no job " + job + " runs"));
}

TEST_F(Agent, ALostClientEndsItsStreamAndNothingElse) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  ASSERT_TRUE(agent.Ask({"--name", "stays.jsonl", "start", "snap", "--on", "exec"}).is_object());
  pid_t client = fork();
  if (client == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
    execl(testing_support::BrinkBinary().c_str(), "brink", "ctl", "--socket", agent.socket().c_str(), "snap", "--on", "syscall:getppid", nullptr);
    _exit(127);
  }
  auto jobs = [&] { return agent.Ask({"status"})["jobs"]; };
  EXPECT_TRUE(Eventually([&] { auto all = jobs(); return all.size() == 2 && all[1]["state"] == "running"; }));
  kill(client, SIGKILL);
  waitpid(client, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { auto all = jobs(); return all.size() == 2 && all[1]["ended"] == "its client is gone"; })) << jobs().dump();
  EXPECT_EQ(jobs()[0]["state"], "running");
  Execs(2);
  EXPECT_TRUE(Eventually([&] { return Lines(Slurp(agent.folder() + "/stays.jsonl")).size() >= 2; }));
  // Killed, it leaves nothing attached, and the next one starts in its place.
  const auto programs = testing_support::ProgramsHeldBy(agent.pid());
  EXPECT_FALSE(programs.empty());
  agent.End(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
  BackgroundAgent next(dir_.path(), kNoFlight);
  EXPECT_TRUE(next.ready()) << next.text();
  EXPECT_EQ(next.Ask({"status"})["jobs"].size(), 0u);
}

TEST_F(Agent, ASecondAgentIsRefused) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  BackgroundAgent second(dir_.path(), kNoFlight);
  EXPECT_FALSE(second.ready());
  EXPECT_THAT(second.text(), HasSubstr("another agent serves"));
}

TEST_F(Agent, OtherUsersAreTurnedAway) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  if (getuid() != 0 || testing_support::Run({"setpriv", "--reuid=12345", "--clear-groups", "true"}).status != 0) GTEST_SKIP() << "needs root and setpriv";
  auto as_other = [&] { return testing_support::Run({"setpriv", "--reuid=12345", "--clear-groups", testing_support::BrinkBinary(), "ctl", "--socket", agent.socket(), "status"}); };
  auto stranger = as_other();
  if (stranger.status == 126 || stranger.status == 127) GTEST_SKIP() << "another user cannot run this build";
  EXPECT_EQ(stranger.status, 1) << stranger.err;
  // Even where the mode would let them in.
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(agent.socket().c_str(), 0666), 0);
  stranger = as_other();
  EXPECT_EQ(stranger.status, 1);
  EXPECT_THAT(stranger.err, HasSubstr("serves root and its own user only"));
  EXPECT_EQ(agent.Ask({"status"})["clients"], 1);
}

TEST_F(Agent, MistakesOfClientsAreExplainedAndHarmless) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"snap", "--on", "syscal:openat"}, "nearest: syscall"},
      {{"snap", "--onn", "exec"}, "--onn"},
      {{"snap"}, "--on TRIGGER"},
      {{"snap", "--on", "exec", "-o", "/etc/passwd"}, "names its files itself"},
      {{"snap", "--on", "exec", "--", "id"}, "runs no commands"},
      {{"start", "record", "--source", "hop", "-a"}, "Use brink record"},
      {{"start", "record", "-p", "999999999"}, "999999999"},
      {{"dump"}, "no flight recorder"},
      {{"stop", "99"}, "no job 99"},
      {{"statos"}, "nearest: status"}};
  for (const auto& [words, says] : mistakes) {
    auto result = agent.Ctl(words);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.err, HasSubstr(says));
  }
  // A client that speaks no JSON, and one that never ends its line.
  auto fd = agent::Connect(agent.socket());
  ASSERT_TRUE(fd.ok());
  ASSERT_GT(send(fd->get(), "hello\n", 6, MSG_NOSIGNAL), 0);
  std::string answers;
  char buffer[4096];
  while (answers.find("one JSON object a line") == std::string::npos) {
    ssize_t n = recv(fd->get(), buffer, sizeof(buffer), 0);
    ASSERT_GT(n, 0);
    answers.append(buffer, static_cast<size_t>(n));
  }
  const std::string flood(200'000, 'x');
  for (size_t sent = 0; sent < flood.size();) {
    ssize_t n = send(fd->get(), flood.data() + sent, flood.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // turned away, as it should
    sent += static_cast<size_t>(n);
  }
  EXPECT_TRUE(Eventually([&] { return agent.Ask({"status"})["clients"] == 1; }));
}

// Its requests wait instead of their answers filling the memory, and each is answered in the end.
TEST_F(Agent, AClientThatDoesNotReadFillsNoMemory) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto fd = agent::Connect(agent.socket());
  ASSERT_TRUE(fd.ok());
  auto resident_kib = [&] {
    const std::string status = Slurp("/proc/" + std::to_string(agent.pid()) + "/status");
    return std::stol(status.substr(status.find("VmRSS:") + 6));
  };
  const long before = resident_kib();
  const std::string request = "{\"id\":1,\"verb\":\"status\"}\n";
  std::string unsent;
  size_t asked = 0;
  // Until nothing moves for a second: then both sides wait.
  for (pollfd wait = {fd->get(), POLLOUT, 0}; asked < 200'000 && poll(&wait, 1, 1000) > 0;) {
    if (unsent.empty()) unsent = request, ++asked;
    const ssize_t n = send(fd->get(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ASSERT_TRUE(n > 0 || errno == EAGAIN);
    if (n > 0) unsent.erase(0, static_cast<size_t>(n));
  }
  EXPECT_LT(asked, 200'000u) << "the client was never made to wait";
  EXPECT_LT(resident_kib() - before, 8 << 10);
  if (!unsent.empty() && unsent.size() == request.size()) --asked, unsent.clear();
  size_t answered = 0, sent_rest = unsent.size();
  char buffer[16384];
  for (pollfd wait = {fd->get(), POLLIN, 0}; answered < asked + 1 && poll(&wait, 1, 20'000) > 0;) {
    const ssize_t n = recv(fd->get(), buffer, sizeof(buffer), 0);
    ASSERT_GT(n, 0);
    answered += static_cast<size_t>(std::count(buffer, buffer + n, '\n'));
    if (sent_rest && send(fd->get(), unsent.data() + unsent.size() - sent_rest, sent_rest, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) sent_rest = 0;
  }
  EXPECT_EQ(answered, asked + 1) << "and its greeting";
}

TEST_F(Agent, ManualTriggersFire) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto started = agent.Ask({"--name", "manual.jsonl", "start", "snap", "--on", "manual"});
  ASSERT_TRUE(started.is_object());
  ASSERT_TRUE(agent.Ask({"fire", std::to_string(started["job"].get<int>())}).is_object());
  EXPECT_TRUE(Eventually([&] { return Lines(Slurp(agent.folder() + "/manual.jsonl")).size() >= static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)); }));
}

TEST_F(Agent, FiringAJobWithoutAManualTriggerEndsNothing) {
  BackgroundAgent agent(dir_.path(), kNoFlight);
  ASSERT_TRUE(agent.ready()) << agent.text();
  auto started = agent.Ask({"start", "snap", "--on", "exec", "--if", "pid == 1"});
  ASSERT_TRUE(started.is_object());
  auto fired = agent.Ctl({"fire", std::to_string(started["job"].get<int>())});
  EXPECT_EQ(fired.status, 1);
  EXPECT_THAT(fired.err, HasSubstr("has no manual trigger"));
  EXPECT_NE(agent.Ask({"status"})["jobs"][0]["state"], "ended");
}

TEST_F(Agent, TheFlightRecorderIsDumpedOnDemand) {
  SKIP_UNLESS("perf.cpu_clock");
  BackgroundAgent agent(dir_.path(), kSmall);
  ASSERT_TRUE(agent.ready()) << agent.text();
  // A process that has ended before the dump is in it, with its name and symbols.
  testing_support::Run({"/bin/sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"});
  auto dumped = agent.Ask({"--name", "dump.data", "dump"});
  ASSERT_TRUE(dumped.is_object());
  EXPECT_GT(dumped["samples"], 0);
  auto script = testing_support::RunBrink({"script", "-i", agent.folder() + "/dump.data", "-F", "comm,time,ip,sym"});
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("sh")) << script.out.substr(0, 2000);
  EXPECT_EQ(agent.Ask({"status"})["flight"]["dumps"], 1);
  EXPECT_THAT(agent.Ctl({"--name", "dump.data", "dump"}).err, HasSubstr("already"));
}

TEST_F(Agent, TheFlightRecorderIsDumpedOnATriggerAndASignal) {
  SKIP_UNLESS("perf.cpu_clock");
  auto options = kSmall;
  options.insert(options.end(), {"--dump-on", "signal:SEGV"});
  BackgroundAgent agent(dir_.path(), options);
  ASSERT_TRUE(agent.ready()) << agent.text();
  EXPECT_TRUE(Eventually([&] { return agent.Ask({"status"})["jobs"][0]["state"] == "running"; }));
  auto dumps = [&] { return agent.Ask({"status"})["flight"]["dumps"].get<int>(); };
  EXPECT_EQ(dumps(), 0);
  testing_support::Run({"/bin/sh", "-c", "kill -SEGV $$"});
  EXPECT_TRUE(Eventually([&] { return dumps() == 1; }));
  kill(agent.pid(), SIGUSR1);
  EXPECT_TRUE(Eventually([&] { return dumps() == 2; }));
}

TEST_F(Agent, MetricsAreServed) {
  // A port of the kernel's choice, freed just before.
  auto probe = agent::ListenTcp("0");
  ASSERT_TRUE(probe.ok());
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(probe->get(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&address);
  const std::string port = std::to_string(bytes[2] << 8 | bytes[3]);
  probe->Reset();
  auto options = kNoFlight;
  options.insert(options.end(), {"--metrics", port});
  BackgroundAgent agent(dir_.path(), options);
  ASSERT_TRUE(agent.ready()) << agent.text();
  agent.Ask({"status"});
  auto got = testing_support::Run({"/usr/bin/python3", "-c", "import sys,urllib.request\nr=urllib.request.urlopen('http://127.0.0.1:" + port + "/metrics',timeout=10)\nprint(r.headers['Content-Type'])\nprint(r.read().decode())"});
  if (got.status == 127) GTEST_SKIP() << "needs python3";
  EXPECT_THAT(got.out, HasSubstr("version=0.0.4"));
  EXPECT_THAT(got.out, HasSubstr("brink_agent_requests_total{verb=\"status\"} 1"));
  EXPECT_THAT(got.out, HasSubstr("brink_agent_flight_up 0"));
}

}  // namespace
}  // namespace brink::agent_tests
