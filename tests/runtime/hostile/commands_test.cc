// Names that a terminal, a spreadsheet or a page might obey, in what the live commands show and in what every command says
// about its own words.
#include <chrono>
#include <csignal>
#include <fstream>

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "limits.h"
#include "support/background.h"
#include "support/features.h"

namespace brink::hostile {
namespace {

using testing::HasSubstr;

constexpr const char* kBad = "\x1b[31mred\x1b]0;t\x07\nbrink: all is well\r\xc2\x9b" "31m\xe2\x80\xae=1+1\xff";

// Argument: milliseconds.
constexpr const char* kProgram = R"(
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define BAD "\033[31mred\033]0;t\a\nbrink: all is well\r\xc2\x9b" "31m\xe2\x80\xae=1+1\xff"
static long ms(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
__attribute__((noinline)) int work(int n) { volatile int s = 0; for (int i = 0; i < n; ++i) s += i % 7; return s; }
int main(int argc, char **argv) {
  static const char *const names[] = {"\033[31mA\nb\x9b", "=1+1\xc2\x9b<b>"};
  const long end = ms() + atol(argv[1]);
  for (long i = 0; ms() < end; ++i) {
    prctl(PR_SET_NAME, names[i % 2]);
    work(100000);
    int fd = open("/tmp/no" BAD, O_RDONLY);
    if (fd >= 0) close(fd);
    if (fork() == 0) { execl("/bin/true", BAD, BAD, (char *)0); _exit(1); }
    wait(0);
    usleep(2000);
  }
  return 0;
}
)";

class Live : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.perf_event");
    std::ofstream(dir_.File("it.c")) << kProgram;
    if (testing_support::Run({"gcc", "-g", "-O1", "-o", program_, dir_.File("it.c")}).status != 0) GTEST_SKIP() << "needs gcc";
  }
  void TearDown() override {
    if (background_ > 0) kill(background_, SIGKILL), waitpid(background_, nullptr, 0);
  }
  std::string InBackground() {
    background_ = fork();
    if (background_ == 0) {
      execl(program_.c_str(), program_.c_str(), "100000", static_cast<char*>(nullptr));
      _exit(127);
    }
    return std::to_string(background_);
  }
  std::string File(const std::string& name) { return dir_.File(name); }

  testing_support::TempDir dir_;
  std::string program_ = dir_.File("it\x1b[32mgreen\nprogram");
  pid_t background_ = -1;
};

TEST_F(Live, SnapShowsNamesThatDoNothing) {
  auto text = Harmless({"snap", "--on", "syscall:openat", "--on", "exec", "--on", "sample:99", "--", program_, "50"});
  EXPECT_THAT(text.out, HasSubstr("\\x1b[31mred"));
  auto json = Harmless({"snap", "--json", "--on", "syscall:openat", "--on", "exec", "--on", "uprobe:" + program_ + ":work", "--", program_, "50"});
  size_t lines = 0;
  for (std::string_view line : Split(json.out, '\n')) {
    if (line.empty()) continue;
    ++lines;
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  }
  EXPECT_GT(lines, 5u);
  Harmless({"snap", "--history", "--on", "uprobe:" + program_ + ":work", "-o", File("snap.data"), "--", program_, "50"});
  Harmless({"script", "-i", File("snap.data")});
}

TEST_F(Live, SpansAndPathsOfErrorsTooDo) {
  SKIP_UNLESS("source.walk");
  for (const char* form : {"--quiet", "--json"}) Harmless({"snap", form, "--trace-between", program_ + ":work", "--source", "walk", "--", program_, "20"});
  auto paths = testing_support::RunBrink({"snap", "--errno-path", "openat", "--", program_, "50"});  // kernels that refuse fexit say so
  EXPECT_LT(paths.status, 128) << paths.err;
  EXPECT_EQ(Unsafe(paths.out + paths.err), "");
}

TEST_F(Live, LatencyShowsNamesThatDoNothing) {
  const std::string pid = InBackground();
  for (const char* format : {"text", "json", "csv"}) {
    auto run = Harmless({"latency", "watch", "-p", pid, "-D", "1", "--above", "10", "--format", format, "--save", File("it.json"), "--folded", File("it.folded"),
                         "--plot", File("it.svg")});
    for (std::string_view line : Split(run.out, '\n')) EXPECT_NE(line.substr(0, 1), "=") << line;
  }
  for (const char* name : {"it.json", "it.folded", "it.svg"}) {
    auto text = ReadFile(File(name));
    ASSERT_TRUE(text.ok()) << name;
    EXPECT_EQ(Unsafe(*text), "") << name;
    EXPECT_THAT(*text, testing::Not(HasSubstr("1<b>"))) << name;
  }
  Harmless({"latency", "report", File("it.json")});
  Harmless({"latency", "-q", "-t", "2", "-i", "500", "-l", "400", "--blame"});
}

TEST_F(Live, CfiShowsNamesThatDoNothing) {
  SKIP_UNLESS("source.walk");
  const std::string pid = InBackground();
  for (const char* form : {"--attach-only", "--json"}) Harmless({"cfi", "run", form, "--check=all", "--metrics", File("m.prom"), "-p", pid, "--duration", "500ms"});
  Harmless({"cfi", "learn", "-o", File("learned"), "--check=all", "-p", pid, "--duration", "500ms"});
  for (const char* name : {"m.prom", "learned"}) EXPECT_EQ(Unsafe(ReadFile(File(name)).value_or("")), "") << name;
}

TEST_F(Live, TheAgentTellsNamesThatDoNothing) {
  const std::string socket = File("a.sock"), pid = InBackground();
  testing_support::Background agent({"agent", "--socket", socket, "--dir", File("files"), "--window=0"}, "ready, Ctrl-C ends");
  ASSERT_TRUE(agent.ready()) << agent.text();
  for (const char* form : {"--json", "--socket"}) {
    std::vector<std::string> words = {"ctl", "--socket", socket};
    if (form[2] == 'j') words.push_back(form);
    auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      return more;
    };
    Harmless(with({"status"}));
    Harmless(with({"snap", "--on", "syscall:openat", "-p", pid, "--count", "2"}));
    Harmless(with({"start", "record", "--source", "none", "-p", pid, "--duration", "10s", "--where", "comm != '\x1b[31m\xc2\x9b'"}));
    Harmless(with({"status"}));
  }
  EXPECT_EQ(agent.Stop(SIGTERM).status, 0);
}

// In a terminal of its own; its own sequences are of one form only, and none of the names' is among them.
TEST_F(Live, TopShowsNamesThatDoNothing) {
  SKIP_UNLESS("source.walk");
  const std::string pid = InBackground();
  int screen = -1;
  winsize size = {.ws_row = 30, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t top = forkpty(&screen, nullptr, nullptr, &size);
  if (top == 0) {
    setenv("TERM", "xterm", 1);
    execl(testing_support::BrinkBinary().c_str(), "brink", "top", "--source", "walk", "-p", pid.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string text;
  char block[4096];
  bool asked = false;
  const auto begin = std::chrono::steady_clock::now();
  for (pollfd wait = {screen, POLLIN, 0}; true;) {
    if (poll(&wait, 1, 500) > 0) {
      const ssize_t n = read(screen, block, sizeof block);
      if (n <= 0) break;
      text.append(block, static_cast<size_t>(n));
    }
    const bool shown = text.find("work") != std::string::npos;
    if (!asked && (shown || std::chrono::steady_clock::now() - begin > std::chrono::seconds(30))) asked = write(screen, "q", 1) == 1;
  }
  int status = 0;
  waitpid(top, &status, 0);
  close(screen);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << text.substr(0, 300);
  EXPECT_THAT(text, HasSubstr("work"));
  for (const char* mark : {"\x1b]0;", "\x1b[31m", "\x1b[32m", "\xc2\x9b", "\xe2\x80\xae", "\x9b", "\x07"}) EXPECT_THAT(text, testing::Not(HasSubstr(mark)));
}

TEST(Words, OfTheCommandLineAreToldHarmlessly) {
  testing_support::TempDir dir;
  const std::string bad = std::string("/tmp/none") + kBad;
  const std::vector<std::vector<std::string>> commands = {
      {bad}, {"--" + bad}, {"report", "-i", bad}, {"report", "-t", bad}, {"report", "--where", bad}, {"script", "-i", bad}, {"script", "-F", bad},
      {"annotate", "-i", bad, bad}, {"diff", bad, bad}, {"merge", "-o", "/nonexistent" + bad, bad}, {"export", "-i", bad}, {"export", "-f", bad},
      {"record", "-o", bad + "/x", "--", "true"}, {"record", "-e", bad, "--", "true"}, {"record", "--", bad}, {"record", "-p", bad}, {"record", "--" + bad},
      {"record", "--filter", bad, "--", "true"}, {"record", "-G", bad}, {"record", "--container", bad, "--duration", "10ms"}, {"top", "-p", bad},
      {"snap", "--on", bad}, {"snap", "--on", "uprobe:" + bad + ":main"}, {"snap", "--on", "uprobe:/bin/sh:" + bad}, {"snap", "--if", bad, "--on", "exec"},
      {"snap", "--errno-path", bad}, {"snap", "--trace-between", bad}, {"snap", "--container", bad, "--on", "exec", "--duration", "10ms"}, {"snap", "--on", "exec", "--", bad},
      {"cfi", "run", "--policy", bad, "--", "true"}, {"cfi", "run", "--calls", bad, "--", "true"}, {"cfi", "run", "--", bad}, {"cfi", "replay", bad}, {"cfi", "explain", bad},
      {"cfi", "learn", "-o", bad + "/x", "--", "true"}, {"cfi", bad}, {"latency", "-a", bad}, {"latency", bad}, {"latency", "report", bad}, {"latency", "watch", "-p", bad},
      {"latency", "--json=" + bad + "/x", "-l", "1", "-q"}, {"latency", "busy", "-D", bad}, {"filter", bad}, {"brbe", bad}, {"brbe", "explain", bad}, {"brbe", "decode", bad},
      {"doctor", bad}, {"doctor", "--json=" + bad + "/x"}, {"agent", "--dir", dir.File("files"), "--socket", "/dev/null/" + bad}, {"ctl", "--name", bad, "dump"}, {"ctl", "--socket", bad, "status"}, {"ctl", bad}, 
      {"completions", bad}, {bad, "--help"}, {"man", bad}};
  for (const std::vector<std::string>& words : commands) {
    auto run = testing_support::RunBrink(words);
    std::string command;
    for (const std::string& word : words) command += EscapeForTerminal(word) + " ";
    EXPECT_FALSE(run.timed_out) << command;
    // A container may be waited for: none is no mistake of snap's.
    const bool waits = words[0] == "snap" && words[1] == "--container";
    EXPECT_TRUE((run.status > 0 || waits) && run.status >= 0 && run.status < 128) << command << run.status;
    EXPECT_NE(run.err, "") << command;
    EXPECT_EQ(Unsafe(run.out + run.err), "") << command;
    EXPECT_THAT("\n" + run.err, testing::Not(HasSubstr("\nbrink: all is well"))) << command;
  }
}

}  // namespace
}  // namespace brink::hostile
