// Causes that this machine can have; the guests' are in guest_blame_test.cc, the quota in quota_test.cc.
#include "kernel/tracefs.h"
#include "runtime/latency/blame_fixture.h"
#include "runtime/latency/group.h"

namespace brink::latency {
namespace {

TEST_F(Blame, AHigherPriorityThreadIsNamed) {
  Expect({.kind = "busy", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); });
  if (IsSkipped() || HasFatalFailure()) return;
  // Its path is what late wake-ups have and ordinary ones have not.
  const PathDiff& diff = document_.path_diff;
  EXPECT_GT(diff.normal, 0u);
  auto row = std::find_if(diff.rows.begin(), diff.rows.end(), [](const PathRow& r) { return r.path.starts_with("latency_inject;"); });
  ASSERT_NE(row, diff.rows.end());
  EXPECT_GT(diff.LateShare(*row), diff.NormalShare(*row));
}

// The task that wake-ups interrupt runs a loop in registers only, of which every branch is known.
TEST_F(Blame, TheInterruptedCodeIsWalked) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "walks x86-64 only";
#endif
  Process looper({INJECT, "loop", "0", Number(cpu_), dir_.File("times")}, dir_.File("inject"));
  // Not what runs before main().
  for (int i = 0; i < 12'000 && Text("inject") != "looping\n"; ++i) ::usleep(5000);
  ASSERT_EQ(Text("inject"), "looping\n");
  ProcessResult run = RunBrink({"latency", "-q", "-p", "50", "-a", Number(cpu_), "-l", "300", "--blame=0", "--save", dir_.File("r")}, {.timeout = std::chrono::seconds(300)});
  ASSERT_EQ(run.status, 0) << run.err;
  auto document = ParseResultJson(*ReadFile(dir_.File("r"), size_t{1} << 30));
  ASSERT_TRUE(document.ok()) << document.status();
  int walked = 0;
  for (const SpikeReport& spike : document->spikes) {
    if (spike.walked_of != "latency_inject (pid " + Number(looper.pid()) + ")" || spike.walked.empty()) continue;
    ++walked;
    for (const std::string& branch : spike.walked) EXPECT_THAT(branch, testing::MatchesRegex(".*RegisterLoop.* -> .*RegisterLoop.*")) << SpikeText(spike);
    EXPECT_EQ(spike.walked.size(), 32u) << SpikeText(spike);
  }
  EXPECT_GT(walked, 0) << SpikeText(document->spikes.empty() ? SpikeReport() : document->spikes[0]);
}

// Worst first, each with its reason; no sample is later than the first of them.
TEST_F(Blame, TheWorstAreKeptWithTheirContext) {
  ProcessResult run = RunBrink({"latency", "-q", "-l", "300", "--blame=0", "--save", dir_.File("r"), "--folded", dir_.File("folded")}, {.timeout = std::chrono::seconds(300)});
  ASSERT_EQ(run.status, 0) << run.err;
  auto document = ParseResultJson(*ReadFile(dir_.File("r"), size_t{1} << 30));
  ASSERT_TRUE(document.ok()) << document.status();
  ASSERT_FALSE(document->spikes.empty());
  for (size_t i = 1; i < document->spikes.size(); ++i) EXPECT_GE(document->spikes[i - 1].lateness_ns, document->spikes[i].lateness_ns);
  for (const SpikeReport& spike : document->spikes) EXPECT_TRUE(AddsUp(spike)) << SpikeText(spike);
  std::string notices;
  for (const std::string& notice : document->result.notices) notices += notice;
  if (notices.find("without a report") == notices.npos) {
    EXPECT_EQ(document->spikes[0].lateness_ns, Total(document->result).max());
  }
  EXPECT_EQ(*ReadFile(dir_.File("folded"), size_t{1} << 30), FoldedDiff(document->path_diff));
}

TEST_F(Blame, OnThresholdSignalsExecutesTracesAndStops) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::vector<std::string> words = {"latency", "-q", "--blame=0", "--on-threshold", "signal", "--on-threshold", "exec:cat > " + dir_.File("report"), "--on-threshold", "stop", "--format", "json"};
  const bool traces = ::geteuid() == 0 && TracefsMounted();
  if (traces) words.insert(words.end(), {"--on-threshold", "trace", "--trace-file", dir_.File("trace")});
  ProcessResult run = RunBrink(words);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::HasSubstr("\"ended_by\":\"threshold\""));
  EXPECT_THAT(Text("report"), testing::StartsWith("late by "));
  timespec now = {};
  EXPECT_EQ(::sigtimedwait(&set, nullptr, &now), SIGUSR1);
  if (traces) {
    EXPECT_THAT(Text("trace"), testing::HasSubstr("hit latency threshold"));
  }
}

TEST_F(Blame, OnThresholdContinueMeasuresToTheEnd) {
  ProcessResult run = RunBrink({"latency", "-q", "--blame=0", "--on-threshold", "continue", "--on-threshold", "exec:cat >> " + dir_.File("reports"), "-l", "200", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::HasSubstr("\"ended_by\":\"loops\""));
  EXPECT_THAT(Text("reports"), testing::HasSubstr("late by "));
}

TEST_F(Blame, ASoftirqIsNamed) {
  Expect({.kind = "softirq", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kSoftirq && s.subject == "softirq NET_RX"; });
}

TEST_F(Blame, PageFaultsAreSeen) {
  Expect({.kind = "faults", .brink_options = {"-p", "50", "-m"}}, [&](const SpikeReport& s) { return s.cause == Cause::kPageFaults && s.subject == InjectorName(); });
}

TEST_F(Blame, MemoryPressureIsSeen) {
  Group group("memory");
  if (!group.ok()) GTEST_SKIP() << "needs the memory controller";
  // Reclaim of clean pages is quick: a short period, so that a deadline falls near its beginning.
  Injection injection{.kind = "reclaim", .brink_options = {"-p", "50", "-m", "-i", "100"}, .more = {dir_.File("big"), group.path()}};
  injection.injector_join = [&] { group.Join(); };
  Expect(injection, [&](const SpikeReport& s) { return s.cause == Cause::kReclaim && s.subject == InjectorName(); });
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
    Take(&brink, 0);  // it ends with the waiter
    if (HasFatalFailure()) return;
    holder_ = "holder (pid " + Number(holder) + ")";
  }
  bool NamesHolder(const SpikeReport& spike) const {
    return spike.cause == Cause::kLockHolder && spike.subject == holder_ && spike.verdict.find("stopped (SIGSTOP)") != std::string::npos;
  }
  std::string holder_;
};

TEST_F(WatchBlame, TheStoppedHolderOfAMutexIsNamed) {
  Expect([&] { MeasureHolder("mutex"); }, [&](const SpikeReport& s) { return NamesHolder(s); });
}

TEST_F(WatchBlame, TheStoppedHolderOfAPriorityInheritingMutexIsNamed) {
  Expect([&] { MeasureHolder("pi-mutex"); }, [&](const SpikeReport& s) { return NamesHolder(s); });
}

TEST_F(Blame, BusyLoopsSeeWhoTookTheirTime) {
  auto round = [&] {
    Process brink({BrinkBinary(), "latency", "busy", "-C", Number(cpu_), "-D", "600", "-f", "50", "--blame=300", "--save", dir_.File("r")}, dir_.File("out"));
    ASSERT_TRUE(WaitForThread(brink.pid(), "brink-busy\n")) << Text("out");
    Inject({.kind = "busy"});
    if (IsSkipped() || HasFatalFailure()) return;
    Take(&brink);
  };
  Expect(round, [&](const SpikeReport& s) { return s.cause == Cause::kTask && s.subject == InjectorName(); });
}

}  // namespace
}  // namespace brink::latency
