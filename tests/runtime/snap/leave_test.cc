// Nothing is left behind: after the end, a Ctrl-C, a kill -9; judged by brink's own program names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fcntl.h>
#include <thread>

#include "snap_support.h"
#include "support/bpf_left.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// brink snap in the background, armed.
class Background {
 public:
  explicit Background(std::vector<std::string> args) {
    args.insert(args.begin(), {testing_support::BrinkBinary(), "snap"});
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      std::vector<char*> argv;
      for (std::string& arg : args) argv.push_back(arg.data());
      argv.push_back(nullptr);
      dup2(pipe_fds[1], 2);
      // What else runs on the machine must not decide how long its end takes.
      (void)setpriority(PRIO_PROCESS, 0, -20);
      int null = open("/dev/null", O_WRONLY);
      dup2(null, 1);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(pipe_fds[1]);
    err_ = pipe_fds[0];
    for (char c; text_.find("armed, Ctrl-C") == std::string::npos && read(err_, &c, 1) == 1;) text_ += c;
  }
  ~Background() {
    if (pid_ > 0) End(SIGKILL);
    close(err_);
  }
  bool armed() const { return text_.find("armed, Ctrl-C") != std::string::npos; }
  const std::string& text() const { return text_; }
  pid_t pid() const { return pid_; }
  std::chrono::milliseconds End(int signal) {
    auto begin = Clock::now();
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  }

 private:
  pid_t pid_ = -1;
  int err_ = -1;
  std::string text_;
};

TEST(SnapLeaves, NothingAfterAnOrderlyEnd) {
  SKIP_UNLESS("bpf.uprobe");
  Background snap({"--on", "uprobe:" + Self() + ":snap_work", "--on", "exec", "--history", "--", Self(), "--target", "wait"});
  ASSERT_TRUE(snap.armed()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_GE(programs.size(), 6u);
  snap.End(SIGINT);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST(SnapLeaves, NothingAfterKillWhileTheCommandLivesOn) {
  SKIP_UNLESS("bpf.uprobe");
  Background snap({"--on", "uprobe:" + Self() + ":snap_work", "--on", "syscall:lseek", "--", Self(), "--target", "spin"});
  ASSERT_TRUE(snap.armed()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_FALSE(programs.empty());
  snap.End(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST(SnapLeaves, NothingAfterKillWhileAHelperLives) {
  SKIP_UNLESS("source.step");
  Background snap({"--trace-between", Self() + ":snap_decide", "--source", "step", "--", Self(), "--target", "decide"});
  ASSERT_TRUE(snap.armed()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_FALSE(programs.empty());
  snap.End(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST(SnapLeaves, AThousandUprobesGoAtOnce) {
  SKIP_UNLESS("bpf.uprobe_multi");
  // The C library exports some thousand functions beginning with these letters.
  Background snap({"--on", "uprobe:libc:[a-p]*", "--if", "pid == 1", "-p", std::to_string(getpid())});
  ASSERT_TRUE(snap.armed()) << snap.text();
  size_t places = snap.text().find("uprobe_multi at ");
  ASSERT_NE(places, std::string::npos) << snap.text();
  EXPECT_GE(std::stoi(snap.text().substr(places + 16)), 1000);
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  auto took = snap.End(SIGINT);
  // One by one they would take more than a minute.
  EXPECT_LE(took, 1s);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

}  // namespace
}  // namespace brink::snap_tests
