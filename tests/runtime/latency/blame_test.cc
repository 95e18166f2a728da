// Late wake-ups of known cause, twenty of each: at least nineteen must be blamed rightly. Only wake-ups that overlap an
// injected stretch of time are judged, so other load of the machine does not matter; nothing is said about how late they
// are, except that five milliseconds are well above the limit.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <fstream>

#include <gmock/gmock.h>

#include "base/fd.h"
#include "latency/cpu_set.h"
#include "latency/outputs.h"
#include "runtime/latency/support.h"
#include "support/features.h"

namespace brink::latency {
namespace {

constexpr int kSpikes = 20;
constexpr int kRight = 19;

std::string Number(int64_t value) { return std::to_string(value); }

class Process {
 public:
  // `before` runs in the child: joining groups and the like.
  Process(std::vector<std::string> words, const std::string& out, const std::function<void()>& before = {}) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    if (before) before();
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Process() {
    if (pid_ > 0) End(SIGKILL);
  }
  pid_t pid() const { return pid_; }
  int End(int signal) {
    if (signal) ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
};

using Injected = std::vector<std::pair<int64_t, int64_t>>;

Injected ReadInjected(const std::string& file) {
  Injected all;
  std::ifstream in(file);
  int64_t start = 0, end = 0;
  while (in >> start >> end) all.push_back({start, end});
  return all;
}

// The explained wake-ups that overlap the stretch, the worst first. Other load of the machine makes late ones there too.
std::vector<const SpikeReport*> Within(const std::vector<SpikeReport>& spikes, int64_t start, int64_t end) {
  std::vector<const SpikeReport*> within;
  for (const SpikeReport& spike : spikes) {
    if (spike.now_ns >= start && spike.deadline_ns <= end) within.push_back(&spike);
  }
  std::sort(within.begin(), within.end(), [](auto* a, auto* b) { return a->lateness_ns > b->lateness_ns; });
  return within;
}

class Blame : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.tp_btf");
    cpu_ = AllowedCpus().back();
  }

  // Runs brink with `args` beside the injector and reads both results.
  void Measure(const std::string& kind, std::vector<std::string> args, const std::function<void()>& join = {}, const std::function<void()>& injector_join = {}, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {BrinkBinary(), "latency", "--blame=300", "-q", "-i", "1000", "-a", Number(cpu_), "--save", dir_.File("r")};
    words.insert(words.end(), args.begin(), args.end());
    Process brink(words, dir_.File("out"), join);
    // Programs are loaded once a sample can be late: the pinned thread exists then.
    bool measuring = false;
    for (int i = 0; i < 2000 && !measuring; ++i) {
      ::usleep(5000);
      measuring = HasThread(brink.pid(), "brink-latency\n");
    }
    ASSERT_TRUE(measuring) << Text("out");
    std::vector<std::string> inject = {INJECT, kind, Number(kSpikes), Number(cpu_), dir_.File("times")};
    inject.insert(inject.end(), more.begin(), more.end());
    Process injector(inject, dir_.File("inject"), injector_join);
    injector_ = injector.pid();
    int status = injector.End(0);
    if (status == 77) GTEST_SKIP() << Text("inject");
    ASSERT_EQ(status, 0) << Text("inject");
    ASSERT_EQ(brink.End(SIGTERM), 0) << Text("out");
    auto document = ParseResultJson(*ReadFile(dir_.File("r")));
    ASSERT_TRUE(document.ok()) << document.status();
    document_ = std::move(*document);
  }

  // How many of the injected stretches are blamed as `right` says; what was wrong is in `wrong_`.
  int Right(const std::function<bool(const SpikeReport&)>& right) {
    int count = 0;
    Injected times = ReadInjected(dir_.File("times"));
    EXPECT_EQ(times.size(), static_cast<size_t>(kSpikes));
    for (const auto& [start, end] : times) {
      const auto spikes = Within(document_.spikes, start, end);
      if (std::any_of(spikes.begin(), spikes.end(), [&](auto* spike) { return right(*spike) && AddsUp(*spike); })) ++count;
      else wrong_ += spikes.empty() ? "nothing was late\n" : SpikeText(*spikes.front());
    }
    return count;
  }

  // Rows within 10 % or 20 us of the lateness, whichever is larger; and the parts exactly.
  static bool AddsUp(const SpikeReport& spike) {
    int64_t sum = 0;
    for (const BlameLine& line : spike.lines) sum += line.ns;
    int64_t off = std::abs(sum - spike.lateness_ns);
    return off <= std::max<int64_t>(spike.lateness_ns / 10, 20'000) && spike.parts.sum() == spike.lateness_ns;
  }

  static bool HasThread(pid_t pid, const std::string& name) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + Number(pid) + "/task", error)) {
      auto comm = ReadFile(entry.path().string() + "/comm", 64);
      if (comm.ok() && *comm == name) return true;
    }
    return false;
  }

  std::string Text(const char* name) {
    auto text = ReadFile(dir_.File(name));
    return text.ok() ? *text : "";
  }

  // "latency_inject (pid N)": the injector's name is cut to fifteen letters.
  std::string InjectorName() const { return "latency_inject (pid " + Number(injector_) + ")"; }

  TempDir dir_;
  int cpu_ = 0;
  pid_t injector_ = 0;
  Document document_;
  std::string wrong_;
};

TEST_F(Blame, AHigherPriorityThreadIsNamed) {
  Measure("busy", {"-p", "50", "-m"});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); }), kRight) << wrong_;
}

TEST_F(Blame, ASoftirqIsNamed) {
  Measure("softirq", {"-p", "50", "-m"});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kSoftirq && s.subject == "softirq NET_RX"; }), kRight) << wrong_;
}

// In the guests with the test module: stack, and with branch hardware the branches, name who kept interrupts off.
TEST_F(Blame, InterruptsThatWereOffHaveAnOwner) {
  if (::access("/sys/module/brink_lbr/parameters/irqs_off", W_OK) != 0) GTEST_SKIP() << "needs the guests' test module";
  Measure("irqs-off", {"-p", "50", "-m"});
  if (IsSkipped() || HasFatalFailure()) return;
  auto names = [](const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return line.find("lbr_hold_interrupts_off") != std::string::npos; });
  };
  int with_branches = 0;
  EXPECT_GE(Right([&](const SpikeReport& s) {
              with_branches += names(s.branches);
              return s.cause == Cause::kInterruptsOff && (s.subject == "lbr_hold_interrupts_off" || names(s.kernel_stack));
            }),
            kRight)
      << wrong_;
  if (testing_support::HasFeature("branch.snapshot")) {
    EXPECT_GE(with_branches, kRight) << wrong_;
  }
}

TEST_F(Blame, PageFaultsAreSeen) {
  Measure("faults", {"-p", "50", "-m"});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kPageFaults && s.subject == InjectorName(); }), kRight) << wrong_;
}

// A group of the tests' own in a v1 or v2 hierarchy, removed at the end.
class Group {
 public:
  // Empty path where the controller is nowhere.
  explicit Group(const std::string& controller) {
    v1_ = "/sys/fs/cgroup/" + controller;
    v2_ = "/sys/fs/cgroup";
    if (::access((v1_ + "/tasks").c_str(), W_OK) == 0) path_ = v1_ + "/brink-test-" + Number(::getpid());
    else if (::access((v2_ + "/cgroup.controllers").c_str(), R_OK) == 0) path_ = v2_ + "/brink-test-" + Number(::getpid()), is_v2_ = true;
    if (is_v2_) Put(v2_ + "/cgroup.subtree_control", "+" + controller);
    if (path_.empty() || ::mkdir(path_.c_str(), 0755) != 0) path_.clear();
  }
  ~Group() {
    for (int i = 0; i < 100 && !path_.empty() && ::rmdir(path_.c_str()) != 0; ++i) ::usleep(10'000);
  }
  bool ok() const { return !path_.empty(); }
  bool v2() const { return is_v2_; }
  const std::string& path() const { return path_; }
  bool Set(const std::string& file, const std::string& value) const { return Put(path_ + "/" + file, value); }
  void Join() const { Put(path_ + "/cgroup.procs", "0"); }

 private:
  static bool Put(const std::string& file, const std::string& value) {
    int fd = ::open(file.c_str(), O_WRONLY);
    bool done = fd >= 0 && ::write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
    ::close(fd);
    return done;
  }
  std::string v1_, v2_, path_;
  bool is_v2_ = false;
};

TEST_F(Blame, ACpuQuotaIsSeen) {
  Group group("cpu");
  if (!group.ok()) GTEST_SKIP() << "needs the cpu controller";
  bool set = group.v2() ? group.Set("cpu.max", "5000 100000") : group.Set("cpu.cfs_period_us", "100000") && group.Set("cpu.cfs_quota_us", "5000");
  ASSERT_TRUE(set);
  // Other load must not keep the group from its quota.
  group.Set(group.v2() ? "cpu.weight" : "cpu.shares", group.v2() ? "10000" : "262144");
  Measure("quota", {}, [&] { group.Join(); }, [&] { group.Join(); }, {group.path() + "/cpu.stat"});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kQuota; }), kRight) << wrong_;
}

TEST_F(Blame, MemoryPressureIsSeen) {
  Group group("memory");
  if (!group.ok()) GTEST_SKIP() << "needs the memory controller";
  std::string file = dir_.File("big");
  // Reclaim of clean pages is quick: a short period, so that a deadline falls near its beginning.
  Measure("reclaim", {"-p", "50", "-m", "-i", "100"}, {}, [&] { group.Join(); }, {file, group.path()});
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kReclaim && s.subject == InjectorName(); }), kRight) << wrong_;
}

// Descriptors of a process that link to something named `kind`.
int CountFds(pid_t pid, const std::string& kind) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + Number(pid) + "/fd", error)) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).string().find(kind) != std::string::npos;
  }
  return count;
}

class WatchBlame : public Blame {
 protected:
  void MeasureHolder(const std::string& kind) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    Process injector({INJECT, kind, Number(kSpikes), Number(cpu_), dir_.File("times")}, dir_.File("inject"), [&] { ::dup2(pipe[0], 0); });
    long waiter = 0, holder = 0;
    for (int i = 0; i < 4000 && !holder; ++i) {
      ::usleep(5000);
      std::sscanf(Text("inject").c_str(), "waiter %ld holder %ld", &waiter, &holder);
    }
    ASSERT_NE(holder, 0) << Text("inject");
    Process brink({BrinkBinary(), "latency", "watch", "-t", Number(waiter), "--blocked-above", "3000", "--save", dir_.File("r")}, dir_.File("out"));
    // The ring's epoll is made when everything is attached.
    for (int i = 0; i < 4000 && CountFds(brink.pid(), "eventpoll") == 0; ++i) ::usleep(5000);
    ASSERT_GT(CountFds(brink.pid(), "eventpoll"), 0) << Text("out");
    ASSERT_EQ(::write(pipe[1], "\n", 1), 1);
    ASSERT_EQ(injector.End(0), 0) << Text("inject");
    ::close(pipe[0]);
    ::close(pipe[1]);
    ASSERT_EQ(brink.End(SIGTERM), 0) << Text("out");
    auto document = ParseResultJson(*ReadFile(dir_.File("r")));
    ASSERT_TRUE(document.ok()) << document.status();
    document_ = std::move(*document);
    holder_ = "holder (pid " + Number(holder) + ")";
  }
  bool NamesHolder(const SpikeReport& spike) const {
    return spike.cause == Cause::kLockHolder && spike.subject == holder_ && spike.verdict.find("stopped (SIGSTOP)") != std::string::npos;
  }
  std::string holder_;
};

TEST_F(WatchBlame, TheStoppedHolderOfAMutexIsNamed) {
  MeasureHolder("mutex");
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return NamesHolder(s); }), kRight) << wrong_;
}

TEST_F(WatchBlame, TheStoppedHolderOfAPriorityInheritingMutexIsNamed) {
  MeasureHolder("pi-mutex");
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_GE(Right([&](const SpikeReport& s) { return NamesHolder(s); }), kRight) << wrong_;
}

TEST_F(Blame, BusyLoopsSeeWhoTookTheirTime) {
  Process brink({BrinkBinary(), "latency", "busy", "-C", Number(cpu_), "-D", "600", "-f", "50", "--blame=300", "--save", dir_.File("r")}, dir_.File("out"));
  bool measuring = false;
  for (int i = 0; i < 4000 && !measuring; ++i) {
    ::usleep(5000);
    measuring = HasThread(brink.pid(), "brink-busy\n");
  }
  ASSERT_TRUE(measuring) << Text("out");
  Process injector({INJECT, "busy", Number(kSpikes), Number(cpu_), dir_.File("times")}, dir_.File("inject"));
  injector_ = injector.pid();
  ASSERT_EQ(injector.End(0), 0) << Text("inject");
  ASSERT_EQ(brink.End(SIGTERM), 0) << Text("out");
  auto document = ParseResultJson(*ReadFile(dir_.File("r")));
  ASSERT_TRUE(document.ok()) << document.status();
  document_ = std::move(*document);
  EXPECT_GE(Right([&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); }), kRight) << wrong_;
}

}  // namespace
}  // namespace brink::latency
