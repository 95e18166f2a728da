#include "limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/fd.h"
#include "base/strings.h"

namespace brink::hostile {

namespace {

struct Most {
  int runs = 0;
  double cpu_seconds = 0;
  long kib = 0;
};

// Of each test, printed at the end as a table of Markdown.
class Figures : public testing::Environment {
 public:
  void Add(double cpu_seconds, long kib) {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    Most& most = most_[test ? std::string(test->test_suite_name()) + '.' + test->name() : ""];
    ++most.runs;
    most.cpu_seconds = std::max(most.cpu_seconds, cpu_seconds);
    most.kib = std::max(most.kib, kib);
  }
  void TearDown() override {
    std::printf("| test | runs of brink | most CPU s of one | most MiB of one |\n|---|---|---|---|\n");
    for (const auto& [name, most] : most_) std::printf("| `%s` | %d | %.2f | %.0f |\n", name.c_str(), most.runs, most.cpu_seconds, static_cast<double>(most.kib) / 1024);
  }

 private:
  std::map<std::string, Most> most_;
};

Figures* const figures = static_cast<Figures*>(testing::AddGlobalTestEnvironment(new Figures));

}  // namespace

std::string Unsafe(const std::string& text) {
  for (std::string_view line : Split(text, '\n')) {
    for (std::string_view piece : Split(line, '\t')) {
      if (std::string safe = EscapeForTerminal(piece); safe != piece) return safe;
    }
  }
  return "";
}

testing_support::ProcessResult Harmless(const std::vector<std::string>& words, bool binary) {
  std::string command;
  for (const std::string& word : words) command += word + " ";
  std::vector<char*> argv = {const_cast<char*>("brink")};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  testing_support::TempDir dir;
  const std::string program = testing_support::BrinkBinary(), out = dir.File("out"), err = dir.File("err");
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kMostSeconds);  // stays over execve
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage = {};  // of this process alone
  EXPECT_EQ(wait4(pid, &status, 0, &usage), pid);
  testing_support::ProcessResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = ReadFile(out).value_or("");
  result.err = ReadFile(err).value_or("");
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  EXPECT_TRUE(result.status == 0 || result.status == 1 || result.status == 3) << command << "ended with " << result.status << "\n" << result.err.substr(0, 2000);
  const double cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  figures->Add(cpu, usage.ru_maxrss);
  EXPECT_LE(cpu, kMostCpuSeconds) << command;
  EXPECT_LE(usage.ru_maxrss, kMostKib) << command;
  if (!binary) {
    EXPECT_EQ(Unsafe(result.out), "") << command;
  }
  EXPECT_EQ(Unsafe(result.err), "") << command;
  return result;
}

}  // namespace brink::hostile
