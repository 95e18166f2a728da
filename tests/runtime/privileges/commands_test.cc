// The table of docs/security.md "Who may run what", by running each of its rows as a user without any right and as one with
// the two capabilities that the documents ask for.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strings.h"
#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing_support::ProcessResult;
using testing_support::TempDir;

// Row of the table -> what is run for it; %/ is a folder of the user. All end by themselves.
const std::map<std::string, std::vector<std::string>> kCommands = {
    {"record --source none", {"record", "-q", "--source", "none", "-o", "%/out.data", "--", "true"}},
    {"record --source walk", {"record", "-q", "--source", "walk", "-o", "%/out.data", "--", "true"}},
    {"record --source step", {"record", "-q", "--source", "step", "-o", "%/out.data", "--", "true"}},
    {"record --source hop", {"record", "-q", "--source", "hop", "-o", "%/out.data", "--", "true"}},
    {"record -a", {"record", "-q", "--source", "none", "-a", "--duration", "100ms", "-o", "%/out.data"}},
    {"snap", {"snap", "--on", "exec", "--count", "1", "--", "true"}},
    {"cfi run", {"cfi", "run", "-q", "--", "true"}},
    {"cfi learn", {"cfi", "learn", "-q", "-o", "%/learnt", "--", "true"}},
    {"latency watch", {"latency", "watch", "-p", "1", "-D", "1"}},
    {"latency", {"latency", "-q", "-l", "20"}},
    {"latency -p", {"latency", "-q", "-p", "80", "-l", "20"}},
    {"latency busy", {"latency", "busy", "-D", "1"}},
    {"report", {"report", "-i", "%/it.data"}},
    {"script", {"script", "-i", "%/it.data"}},
    {"annotate", {"annotate", "-i", "%/it.data", "--all", "_PyEval_EvalFrameDefault"}},
    {"diff", {"diff", "%/it.data", "%/it.data"}},
    {"merge", {"merge", "-o", "%/out.agg", "%/it.data"}},
    {"export", {"export", "-f", "folded", "-i", "%/it.data", "-o", "%/out.folded"}},
    {"cfi replay", {"cfi", "replay", "%/it.data"}},
    {"filter", {"filter", "check", "pid == 1"}},
    {"brbe", {"brbe", "decode", "BRBCR_EL1=0xC0013B"}},
    {"doctor", {"doctor"}},
    {"version", {"version"}},
};

struct Row {
  std::string command;
  bool any = false, capable = false;  // works
};

// "works..." or "refused..." in the two middle columns.
std::vector<Row> Table() {
  std::vector<Row> rows;
  std::ifstream in(testing_support::SourceDir() + "/docs/security.md");
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.substr(0, 3) == "## ") inside = line == "## Who may run what";
    if (!inside || line.substr(0, 3) != "| `") continue;
    std::vector<std::string_view> cells = Split(line, '|');
    EXPECT_GE(cells.size(), 4u) << line;
    Row row;
    std::string name(cells[1]);
    row.command = name.substr(name.find('`') + 1, name.rfind('`') - name.find('`') - 1);
    for (size_t i : {2u, 3u}) {
      const std::string cell(cells[i]);
      const bool works = cell.find("works") == 1;
      EXPECT_TRUE(works || cell.find("refused") == 1) << line;
      (i == 2 ? row.any : row.capable) = works;
    }
    rows.push_back(row);
  }
  return rows;
}

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !std::filesystem::exists("/usr/bin/setpriv")) GTEST_SKIP() << "needs root and setpriv to drop rights";
    SKIP_UNLESS("source.walk");
    ::chmod(dir_.path().c_str(), 0777);
    std::filesystem::copy_file(testing_support::BrinkBinary(), dir_.File("brink"));
    ::chmod(dir_.File("brink").c_str(), 0755);
    auto made = testing_support::RunBrink({"record", "-q", "--source", "walk", "-F", "2000", "--walk-share", "2", "-o", dir_.File("it.data"), "--", "/usr/bin/python3", "-c", "for i in range(3000000): pass"});
    ASSERT_EQ(made.status, 0) << made.err;
    ::chmod(dir_.File("it.data").c_str(), 0644);
  }

  std::vector<std::string> AsNobody(const std::string& caps, std::vector<std::string> words) {
    for (std::string& word : words) {
      if (word.substr(0, 2) == "%/") word = dir_.File(word.substr(2));
    }
    std::vector<std::string> all = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + caps, "--ambient-caps=" + caps, dir_.File("brink")};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  ProcessResult Try(const std::string& caps, const std::vector<std::string>& words) {
    return testing_support::Run(AsNobody(caps, words), {.cwd = dir_.path(), .env = {"HOME=" + dir_.path(), "TERM=dumb"}});
  }
  void Judge(const std::string& who, const std::string& command, bool works, const ProcessResult& result) {
    EXPECT_FALSE(result.timed_out) << who << ": " << command;
    if (works) {
      // doctor says by its status that something is missing.
      EXPECT_TRUE(result.status == 0 || (command == "doctor" && result.status == 1)) << who << ": " << command << ": " << result.status << "\n" << result.err;
      return;
    }
    EXPECT_TRUE(result.status == 1 || result.status == 125) << who << ": " << command << ": " << result.status << "\n" << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("setcap cap_bpf,cap_perfmon+ep " + dir_.File("brink")));
  }

  TempDir dir_;
};

constexpr char kNone[] = "-all", kTwo[] = "-all,+bpf,+perfmon";

TEST_F(Commands, DoWhatTheDocumentSays) {
  const std::vector<Row> rows = Table();
  std::set<std::string> seen;
  for (const Row& row : rows) {
    seen.insert(row.command);
    if (row.command == "agent" || row.command == "ctl" || row.command == "top") continue;  // below
    auto words = kCommands.find(row.command);
    ASSERT_NE(words, kCommands.end()) << "no test for the row of " << row.command;
    Judge("any user", row.command, row.any, Try(kNone, words->second));
    Judge("two capabilities", row.command, row.capable, Try(kTwo, words->second));
  }
  for (const auto& [command, words] : kCommands) EXPECT_TRUE(seen.contains(command)) << "no row for " << command;
  // Each command of the program has a row.
  std::string version = testing_support::RunBrink({"--version"}).out;
  version = version.substr(version.rfind("commands: ") + 10);
  for (std::string_view name : Split(version, ' ')) {
    std::string plain(name.substr(0, name.find('\n')));
    EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [&](const std::string& row) { return row.substr(0, row.find(' ')) == plain; })) << "no row for " << plain;
  }
}

// It wants a terminal, and an interrupt to end.
TEST_F(Commands, TopRunsOrSaysWhyNot) {
  if (!std::filesystem::exists("/usr/bin/script")) GTEST_SKIP() << "needs script for a terminal";
  for (const char* caps : {kNone, kTwo}) {
    std::string line = "timeout --preserve-status --foreground -s INT 20";
    for (const std::string& word : AsNobody(caps, {"top", "--source", "none", "--", "sleep", "60"})) line += " " + word;
    auto run = testing_support::Run({"script", "-qec", line, "/dev/null"}, {.cwd = dir_.path(), .env = {"TERM=xterm"}});
    if (caps == kTwo) {
      EXPECT_EQ(run.status, 0) << run.out;
    } else {
      EXPECT_TRUE(run.status == 1 || run.status == 125) << run.status;
      EXPECT_THAT(run.out, HasSubstr("setcap cap_bpf,cap_perfmon+ep"));
    }
  }
}

TEST_F(Commands, AnAgentServesItsOwnUserOnly) {
  const std::string socket = dir_.File("agent.sock");
  const std::vector<std::string> agent = {"agent", "--socket", socket, "--dir", dir_.path(), "--window", "0", "-q"};
  Judge("any user", "agent", false, Try(kNone, agent));
  const pid_t pid = fork();
  if (pid == 0) {
    std::vector<std::string> words = AsNobody(kTwo, agent);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  // The file is there before the agent listens.
  for (int i = 0; i < 1500 && (!std::filesystem::exists(socket) || Try(kNone, {"ctl", "--socket", socket, "status"}).status != 0); ++i) usleep(20'000);
  EXPECT_EQ(Try(kNone, {"ctl", "--socket", socket, "status"}).status, 0) << "the same user, without any right";
  std::vector<std::string> other = {"setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", dir_.File("brink"), "ctl", "--socket", socket, "status"};
  auto refused = testing_support::Run(other);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("serves root and its own user only"));
  kill(pid, SIGTERM);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace brink
