// Tracing leaves nothing behind: tracefs is the same before and after, file by file, also after kill -9.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>

#include <gmock/gmock.h>

#include "base/fd.h"
#include "kernel/tracefs.h"
#include "runtime/latency/support.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;

// Files whose content changes by itself, or that block.
bool Volatile(const std::string& name) {
  static const std::set<std::string> kNames = {"trace", "trace_pipe", "trace_pipe_raw", "stats", "snapshot", "snapshot_raw", "saved_cmdlines", "saved_tgids", "buffer_total_size_kb", "free_buffer",
                                               "printk_formats", "available_filter_functions", "available_filter_functions_addrs", "touched_functions", "enabled_functions", "hist", "hist_debug",
                                               "format", "id", "README", "error_log", "trace_marker", "trace_marker_raw", "uprobe_profile", "kprobe_profile", "dyn_ftrace_total_info", "eval_map", "trace_clock"};
  return kNames.contains(name);
}

void Walk(const std::string& folder, std::map<std::string, std::string>* files) {
  DIR* dir = ::opendir(folder.c_str());
  if (!dir) return;
  while (struct dirent* entry = ::readdir(dir)) {
    std::string name = entry->d_name, path = folder + "/" + name;
    if (name == "." || name == "..") continue;
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      (*files)[path] = "folder";
      Walk(path, files);
    } else if (Volatile(name)) {
      (*files)[path] = "there";
    } else {
      int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
      if (fd < 0) continue;
      std::string text(1 << 16, '\0');
      ssize_t n = ::read(fd, text.data(), text.size());
      text.resize(n > 0 ? static_cast<size_t>(n) : 0);
      ::close(fd);
      (*files)[path] = text;
    }
  }
  ::closedir(dir);
}

std::map<std::string, std::string> Tree() {
  std::map<std::string, std::string> files;
  Walk(TracefsRoot(), &files);
  return files;
}

// What differs, for the message.
std::string Difference(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after) {
  std::string text;
  for (const auto& [path, content] : before) {
    auto found = after.find(path);
    if (found == after.end()) text += "gone: " + path + "\n";
    else if (found->second != content) text += "changed: " + path + "\n  " + content.substr(0, 100) + "\n  " + found->second.substr(0, 100) + "\n";
  }
  for (const auto& [path, content] : after) {
    if (!before.contains(path)) text += "new: " + path + "\n";
  }
  return text;
}

class TraceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !TracefsMounted()) GTEST_SKIP() << "needs root and a mounted tracefs";
    before_ = Tree();
    ASSERT_GT(before_.size(), 100u);
  }
  TempDir dir_;
  std::map<std::string, std::string> before_;
};

TEST_F(TraceTest, TheBreakIsTheLastThingInTheTrace) {
  // With a real-time priority nothing comes between mark and stop; where that is refused, something might.
  sched_param param = {.sched_priority = 1};
  const bool real_time = ::sched_setscheduler(0, SCHED_FIFO, &param) == 0;
  param.sched_priority = 0;
  ::sched_setscheduler(0, SCHED_OTHER, &param);
  std::string file = dir_.File("t");
  ProcessResult run = RunAsCyclictest({"-q", "-p", real_time ? "80" : "0", "-b", "1", "--tracemark", "-E", "sched:sched_switch", "--trace-file", file});
  ASSERT_EQ(run.status, 0) << run.err;
  // cyclictest once warned at each write.
  EXPECT_THAT(run.err, testing::Not(HasSubstr("WARN"))) << run.err;
  auto text = ReadFile(file);
  ASSERT_TRUE(text.ok());
  CyclicOutput out = ParseOf(run);
  ASSERT_TRUE(out.break_value);
  std::string marker = "hit latency threshold (" + std::to_string(*out.break_value) + " > 1)";
  ASSERT_THAT(*text, HasSubstr(marker));
  // Stopped within the sample: the marking thread records nothing behind its mark, so it never left the CPU in between.
  std::string tid = "-" + std::to_string(*out.break_thread) + " ";
  size_t mark = text->find(marker);
  EXPECT_EQ(text->find(tid, mark), std::string::npos) << text->substr(mark);
  EXPECT_EQ(Difference(before_, Tree()), "");
}

TEST_F(TraceTest, DefaultEventsAreTraced) {
  std::string file = dir_.File("t");
  ASSERT_EQ(RunAsCyclictest({"-q", "-b", "1", "--tracemark", "--trace-file", file}).status, 0);
  EXPECT_THAT(*ReadFile(file), HasSubstr("sched_switch:"));
  EXPECT_EQ(Difference(before_, Tree()), "");
}

TEST_F(TraceTest, KillNineLeavesNothing) {
  pid_t child = ::fork();
  if (child == 0) {
    int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    ::execl(BrinkBinary().c_str(), "brink", "latency", "-q", "-b", "1000000000", "--tracemark", nullptr);
    ::_exit(127);
  }
  std::string instance = TracefsRoot() + "/instances/brink-" + std::to_string(child);
  std::string enabled = instance + "/events/sched/sched_switch/enable";
  bool seen = false;
  for (int i = 0; i < 4000 && !seen; ++i) {
    auto text = ReadFile(enabled, 16);
    seen = text.ok() && *text == "1\n";
    ::usleep(2500);
  }
  EXPECT_TRUE(seen);
  EXPECT_NE(Difference(before_, Tree()), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // The guard, at once; within a minute on a slow machine.
  std::string difference = "?";
  for (int i = 0; i < 600 && !difference.empty(); ++i) {
    ::usleep(100'000);
    difference = ::access(instance.c_str(), F_OK) == 0 ? "the instance" : Difference(before_, Tree());
  }
  EXPECT_EQ(difference, "");
}

TEST_F(TraceTest, TheNextStartCleansUpWithoutAGuard) {
  // A process that is gone, and its guard too.
  pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  std::string instance = TracefsRoot() + "/instances/brink-" + std::to_string(dead);
  ASSERT_EQ(::mkdir(instance.c_str(), 0700), 0);
  ASSERT_EQ(RunAsCyclictest({"-q", "-b", "1", "--tracemark", "--trace-file", dir_.File("t")}).status, 0);
  EXPECT_EQ(Difference(before_, Tree()), "");
}

TEST_F(TraceTest, TracersForTheTopLevelOnlyAreListedAndPutBack) {
  auto available = ReadFile(TracefsRoot() + "/available_tracers", 4096);
  if (available->find("blk") == std::string::npos) GTEST_SKIP() << "needs the tracer blk";
  ProcessResult run = RunAsCyclictest({"-q", "-b", "1", "-T", "blk", "--trace-file", dir_.File("t")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("current_tracer is changed and put back"));
  EXPECT_EQ(Difference(before_, Tree()), "");
}

TEST_F(TraceTest, AbsentTracersSayWhatThereIs) {
  auto available = ReadFile(TracefsRoot() + "/available_tracers", 4096);
  struct { const char* option; const char* tracer; } cases[] = {{"-f", "function"}, {"-B", "preemptirqsoff"}, {"-I", "irqsoff"}, {"-P", "preemptoff"}, {"-w", "wakeup"}, {"-W", "wakeup_rt"}};
  for (const auto& c : cases) {
    ProcessResult run = RunAsCyclictest({"-q", "-b", "1", c.option, "--trace-file", dir_.File("t")});
    if (run.status != 0) {
      EXPECT_THAT(run.err, testing::AllOf(HasSubstr(c.tracer), HasSubstr("--blame"))) << c.option;
      EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    }
  }
  EXPECT_EQ(Difference(before_, Tree()), "");
}

// The user's own trace, as trace-cmd starts it: it holds the mark and is stopped.
TEST_F(TraceTest, TraceTopMarksAndStopsTheUsersTrace) {
  const std::string on = TracefsRoot() + "/tracing_on";
  auto before = ReadFile(on, 16);
  if (!before.ok() || *before != "1\n") GTEST_SKIP() << "needs a top-level trace that is on";
  ProcessResult run = RunAsCyclictest({"-q", "-b", "1", "--tracemark", "--trace-top"});
  EXPECT_EQ(*ReadFile(on, 16), "0\n");
  {
    auto fd = OpenFile(on, O_WRONLY);
    ASSERT_TRUE(fd.ok() && WriteAll(fd->get(), "1", 1).ok());
  }
  ASSERT_EQ(run.status, 0) << run.err;
  std::string marker = "hit latency threshold (" + std::to_string(ParseOf(run).break_value.value_or(-1)) + " > 1)";
  EXPECT_THAT(*ReadFile(TracefsRoot() + "/trace", size_t{1} << 28), HasSubstr(marker));
  EXPECT_EQ(Difference(before_, Tree()), "");
}

TEST_F(TraceTest, OldOptionsThatNeedNothingAreTaken) {
  ProcessResult run = RunAsCyclictest({"-q", "-n", "-U", "-y", "other", "-C", "-O", "noirq-info", "--notrace", "-l", "2"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(RunAsCyclictest({"-q", "-l", "2", "-C"}).status, 2) << "without a limit there is nothing to stop at";
}

}  // namespace
}  // namespace brink::latency
