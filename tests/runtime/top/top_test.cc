// brink top in a pseudo-terminal: a live recording of the walk source, keys, and a terminal that is left as it was.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing_support::BrinkBinary;
using testing_support::TempDir;

constexpr char kForever[] = "1000000000";  // rounds of the demo
constexpr int kRows = 30, kColumns = 120;

// As much of a terminal as brink top uses.
class Screen {
 public:
  void Feed(std::string_view bytes) {
    pending_ += bytes;
    while (!pending_.empty()) {
      size_t used = pending_[0] == '\033' ? Sequence() : Text();
      if (used == 0) return;
      pending_.erase(0, used);
    }
  }
  std::string text() const {
    std::string all;
    for (const std::string& row : rows_) all += row + "\n";
    return all;
  }
  bool alternate() const { return alternate_; }

 private:
  size_t Sequence() {
    size_t end = pending_.find_first_of("HJKmhl");
    if (end == std::string::npos) return 0;
    const char final = pending_[end];
    if (final == 'H') row_ = static_cast<size_t>(std::atoi(pending_.c_str() + 2)) - 1, column_ = 0;
    if (final == 'J') for (std::string& row : rows_) row.clear();
    if (final == 'K' && row_ < rows_.size()) rows_[row_].resize(std::min(rows_[row_].size(), column_));
    if (pending_.compare(0, 8, "\033[?1049h") == 0) alternate_ = true;
    if (pending_.compare(0, 8, "\033[?1049l") == 0) alternate_ = false;
    return end + 1;
  }
  size_t Text() {
    const size_t end = std::min(pending_.find('\033'), pending_.size());
    if (row_ < rows_.size()) {
      std::string& row = rows_[row_];
      if (row.size() < column_ + end) row.resize(column_ + end);
      row.replace(column_, end, pending_.substr(0, end));
    }
    column_ += end;
    return end;
  }
  std::string pending_;
  std::vector<std::string> rows_ = std::vector<std::string>(kRows);
  size_t row_ = 0, column_ = 0;
  bool alternate_ = false;
};

class Session {
 public:
  explicit Session(std::vector<std::string> words) {
    winsize size = {.ws_row = kRows, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    tcgetattr(slave_, &before_);
    words.insert(words.begin(), {BrinkBinary(), "top"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      ioctl(slave_, TIOCSCTTY, 0);
      for (int fd : {0, 1, 2}) dup2(slave_, fd);
      close(master_);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Session() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);  // a test has failed; the recorder follows by itself
      Wait();
    }
    close(master_);
    close(slave_);
  }
  // Reads until the screen has it; generous, because the machine may be busy.
  bool Until(const std::function<bool(const std::string&)>& wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    while (!wanted(screen.text())) {
      if (std::chrono::steady_clock::now() > end || !Pump()) return wanted(screen.text());
    }
    return true;
  }
  bool Shows(const std::string& text) {
    return Until([&](const std::string& all) { return all.find(text) != std::string::npos; });
  }
  void Press(const std::string& keys) { EXPECT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size())); }
  void Signal(int signal) { kill(pid_, signal); }
  int Wait() {
    int status = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (waitpid(pid_, &status, WNOHANG) != pid_) {
      if (std::chrono::steady_clock::now() > end) kill(pid_, SIGKILL);
      Pump();
    }
    pid_ = -1;
    while (Pump(10)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  bool TerminalIsAsBefore() {
    termios now;
    tcgetattr(slave_, &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag && !screen.alternate();
  }
  Screen screen;

 private:
  bool Pump(int timeout_ms = 100) {
    pollfd fd = {master_, POLLIN, 0};
    if (poll(&fd, 1, timeout_ms) <= 0) return timeout_ms >= 100;
    char bytes[65536];
    ssize_t n = read(master_, bytes, sizeof bytes);
    if (n <= 0) return false;
    screen.Feed({bytes, static_cast<size_t>(n)});
    return true;
  }
  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  termios before_ = {};
};

class TopTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    std::string source = testing_support::SourceDir() + "/examples/demo/demo.c";
    // Runs until the test ends it.
    if (testing_support::Run({"gcc", "-O1", "-g", "-fno-if-conversion", "-fno-if-conversion2", "-o", dir_.File("demo"), source}).status != 0) GTEST_SKIP() << "needs gcc";
  }
  // Processes whose executable is the demo.
  size_t Demos() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::error_code error;
      if (std::filesystem::read_symlink(entry.path() / "exe", error) == dir_.File("demo")) ++count;
    }
    return count;
  }
  TempDir dir_;
};

TEST_F(TopTest, ShowsACommandLiveAndFollowsKeys) {
  Session top({"-F", "500", "--walk-share", "2", "--delay", "300ms", "--", dir_.File("demo"), kForever});
  ASSERT_TRUE(top.Shows("sum_large")) << top.screen.text();
  EXPECT_TRUE(top.screen.alternate());
  EXPECT_THAT(top.screen.text(), HasSubstr("[1 functions]"));
  // It is live: the count goes on.
  auto samples = [](const std::string& all) {
    const size_t end = all.find(" samples");
    const size_t start = all.rfind(' ', end - 1);
    std::string digits;
    for (char c : all.substr(start, end - start)) if (c >= '0' && c <= '9') digits += c;
    return std::atoi(digits.c_str());
  };
  const int before = samples(top.screen.text());
  EXPECT_TRUE(top.Until([&](const std::string& all) { return samples(all) > before; })) << top.screen.text();
  top.Press("4");
  EXPECT_TRUE(top.Shows("demo.c:")) << top.screen.text();
  top.Press("1\033[H\r");
  EXPECT_TRUE(top.Shows("taken branches in it")) << top.screen.text();
  top.Press("\033");
  EXPECT_TRUE(top.Shows("ENTERED"));  // a heading of the table: Escape alone takes a moment to be one
  top.Press("/dispatch\r");
  EXPECT_TRUE(top.Until([](const std::string& all) { return all.find("dispatch") != all.npos && all.find("sum_large") == all.npos; })) << top.screen.text();
  top.Press("?");
  EXPECT_TRUE(top.Shows("another table"));
  top.Press("q");
  EXPECT_TRUE(top.Shows("ENTERED"));
  top.Press("q");
  EXPECT_EQ(top.Wait(), 0);
  EXPECT_TRUE(top.TerminalIsAsBefore());
  EXPECT_EQ(Demos(), 0u) << "the command ends with top";
}

TEST_F(TopTest, EndsInOrderOnSignalsAndCtrlC) {
  for (const char* how : {"term", "ctrl-c", "hangup"}) {
    Session top({"-F", "200", "--delay", "300ms", "--", dir_.File("demo"), kForever});
    ASSERT_TRUE(top.Shows("sum_large")) << how << top.screen.text();
    if (std::string(how) == "ctrl-c") top.Press("\x03");
    else top.Signal(std::string(how) == "term" ? SIGTERM : SIGHUP);
    EXPECT_EQ(top.Wait(), 0) << how;
    EXPECT_TRUE(top.TerminalIsAsBefore()) << how;
    EXPECT_EQ(Demos(), 0u) << how;
  }
}

TEST_F(TopTest, RecorderThatCannotBeginSaysWhy) {
  Session top({"-p", "999999999"});
  EXPECT_EQ(top.Wait(), 1);
  EXPECT_TRUE(top.TerminalIsAsBefore());
}

TEST(TopWithoutTerminal, IsRefusedWithAdvice) {
  auto result = testing_support::RunBrink({"top", "--", "true"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("brink report"));
  EXPECT_EQ(testing_support::RunBrink({"top", "--input", "x.data", "-a"}).status, 2);
}

TEST(TopOfARecording, CanBeLookedAroundIn) {
  auto path = testing_support::SharedData("perfdata/sandybridge-lbr16-zeros.data");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  Session top({"--input", *path});
  ASSERT_TRUE(top.Shows("[ended]")) << top.screen.text();
  EXPECT_THAT(top.screen.text(), HasSubstr("[chrome]"));
  top.Press("7");
  EXPECT_TRUE(top.Shows("[7 mispredict]"));
  top.Press("q");
  EXPECT_EQ(top.Wait(), 0);
}

}  // namespace
}  // namespace brink
