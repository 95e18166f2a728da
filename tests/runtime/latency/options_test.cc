// One test for each option of cyclictest that says what is measured, when and by which threads (docs/latency.md names them):
// same letter, same meaning. No test judges how long anything took. What is printed: output_options_test.cc.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "latency/cpu_set.h"
#include "runtime/latency/options.h"

namespace brink::latency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Option, AffinityPinsThreadsInTurn) {
  std::vector<int> allowed = AllowedCpus();
  int last = allowed.back();
  EXPECT_THAT(CpusOf({"-a", std::to_string(last), "-t2"}), ElementsAre(last, last));
  EXPECT_THAT(CpusOf({"-t2"}), ElementsAre(-1, -1));
  EXPECT_EQ(CpusOf({"-a", "-t"}), allowed);
}

TEST(Option, AffinityRefusesAbsentCpus) {
  ProcessResult run = Cyc({"-a", "60000", "-l", "1"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("CPU 60000 is not online"));
}

TEST(Option, AlignedStartsThreadsTogether) {
  RUN_OR_FAIL(run, {"-A", "100", "-t2", "-l", "3"});
  EXPECT_EQ(ParseOf(run).statuses.size(), 2u);
}

TEST(Option, SecalignedExcludesAligned) {
  EXPECT_EQ(Cyc({"-A", "--secaligned", "-l", "1"}).status, 2);
  RUN_OR_FAIL(run, {"--secaligned", "100", "-l", "2"});
  EXPECT_EQ(ParseOf(run).statuses[0].cycles, 2u);
}

TEST(Option, BreaktraceStopsAtTheFirstSampleAbove) {
  RUN_OR_FAIL(run, {"-b", "1", "-l", "1000000", "-t2"});
  CyclicOutput out = ParseOf(run);
  ASSERT_TRUE(out.break_value && out.break_thread);
  EXPECT_GT(*out.break_value, 1);
  // The thread that is named is the one whose maximum it was.
  for (const auto& status : out.statuses) {
    if (status.tid == *out.break_thread) {
      EXPECT_EQ(status.max, *out.break_value);
    }
  }
  EXPECT_THAT(out.thread_ids, ElementsAre(out.statuses[0].tid, out.statuses[1].tid));
}

TEST(Option, BreaktraceNotReachedNamesThreadsOnly) {
  RUN_OR_FAIL(run, {"-b", "10000000", "-l", "2"});
  EXPECT_FALSE(ParseOf(run).break_value);
  EXPECT_EQ(ParseOf(run).thread_ids.size(), 1u);
}

TEST(Option, ClockByNumberAndName) {
  for (const char* clock : {"0", "1", "monotonic", "realtime", "boottime", "tai"}) {
    RUN_OR_FAIL(run, {"-c", clock, "-l", "3"});
    EXPECT_EQ(ParseOf(run).statuses[0].cycles, 3u) << clock;
  }
  EXPECT_EQ(Cyc({"-c", "sundial", "-l", "1"}).status, 2);
}

TEST(Option, ClockAuxSaysWhereThereIsNone) {
  timespec probe;
  ProcessResult run = Cyc({"-c", "aux0", "-l", "2"});
  if (::clock_gettime(16, &probe) == 0) {
    EXPECT_EQ(run.status, 0) << run.err;
  } else {
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.err, HasSubstr("this kernel has no clock aux0"));
  }
}

TEST(Option, DistanceSpreadsIntervals) {
  RUN_OR_FAIL(run, {"-i", "2000", "-d", "250", "-t3", "-l", "2"});
  CyclicOutput out = ParseOf(run);
  ASSERT_EQ(out.statuses.size(), 3u);
  EXPECT_EQ(out.statuses[2].interval_us, 2500);
}

TEST(Option, DurationEndsTheRun) {
  auto start = std::chrono::steady_clock::now();
  RUN_OR_FAIL(run, {"-D", "1"});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_GT(ParseOf(run).statuses[0].cycles, 0u);
  EXPECT_EQ(Cyc({"-D", "1x"}).status, 2);
}

TEST(Option, DeepestIdleStateWorksOrSaysThatThereIsNone) {
  RUN_OR_FAIL(run, {"--deepest-idle-state=0", "-l", "2"});
  bool has = ::access("/sys/devices/system/cpu/cpu0/cpuidle/state0/disable", F_OK) == 0;
  EXPECT_THAT(has ? run.out : run.err, HasSubstr(has ? "idle states deeper than 0" : "no idle states"));
  EXPECT_THAT(run.out, Not(HasSubstr("cpu_dma_latency")));
}

TEST(Option, DefaultSystemAndLaptopTouchNothing) {
  for (const char* option : {"--default-system", "--laptop"}) {
    RUN_OR_FAIL(run, {option, "-l", "2"});
    EXPECT_FALSE(ParseOf(run).dma_latency_us) << option;
    EXPECT_THAT(run.err, HasSubstr("WARN: "));
  }
}

TEST(Option, LatencyIsWritten) {
  if (::access("/dev/cpu_dma_latency", W_OK) != 0) GTEST_SKIP() << "needs a writable /dev/cpu_dma_latency";
  RUN_OR_FAIL(run, {"--latency=12", "-l", "2"});
  EXPECT_EQ(ParseOf(run).dma_latency_us, 12);
  RUN_OR_FAIL(negative, {"--latency=-7", "-l", "2"});
  EXPECT_EQ(ParseOf(negative).dma_latency_us, 0);
}

TEST(Option, IntervalZeroIsRefusedAtOnce) {
  ProcessResult run = Cyc({"-i", "0"});
  EXPECT_EQ(run.status, 2);
  EXPECT_FALSE(run.timed_out);
}

TEST(Option, LoopsEndWithTheFirstThreadOrWithAll) {
  RUN_OR_FAIL(first, {"-l", "4", "-t2", "-d", "2000000"});
  EXPECT_EQ(ParseOf(first).statuses[0].cycles, 4u);
  EXPECT_LT(ParseOf(first).statuses[1].cycles, 4u);
  RUN_OR_FAIL(all, {"-l", "4", "-t2", "-d", "20000", "--finish", "all"});
  EXPECT_EQ(ParseOf(all).statuses[0].cycles, 4u);
  EXPECT_EQ(ParseOf(all).statuses[1].cycles, 4u);
}

TEST(Option, MainaffinityLeavesThreadsAlone) {
  EXPECT_THAT(CpusOf({"--mainaffinity=" + std::to_string(AllowedCpus()[0]), "-t2"}), ElementsAre(-1, -1));
}

TEST(Option, MlockallLocks) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  RUN_OR_FAIL(run, {"-m", "-l", "3"});
  EXPECT_EQ(ParseOf(run).statuses[0].cycles, 3u);
}

// What a sample touches has been touched before the first, whichever way the thread sleeps, and stays.
TEST(Option, LockedThreadsHaveNoPageFaults) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  for (const char* way : {"-q", "-r", "-s", "-x"}) {
    ProcessResult run = RunBrink({"latency", "-m", "-q", way, "-l", "100", "-h", "100", "--format", "json"});
    ASSERT_EQ(run.status, 0) << run.err;
    auto thread = nlohmann::json::parse(run.out)["threads"][0];
    EXPECT_LE(thread["page_faults"], 1) << way;  // the kernel may move a page
    EXPECT_EQ(thread["latency"]["count"], 100) << "the rehearsal is none";
  }
}

TEST(Option, PriorityAndPolicy) {
  NEED_FIFO();
  RUN_OR_FAIL(fifo, {"-p", "3", "-l", "2", "-t2"});
  EXPECT_THAT(ParseOf(fifo).statuses[1].priority, 3);
  RUN_OR_FAIL(rr, {"--policy=rr", "-l", "2"});
  EXPECT_EQ(ParseOf(rr).statuses[0].priority, 2);
  EXPECT_THAT(rr.err, HasSubstr("defaulting realtime priority to 2"));
  EXPECT_EQ(Cyc({"-p", "100", "-l", "1"}).status, 2);
}

TEST(Option, PolicyIsReallySet) {
  struct { const char* name; int policy; } cases[] = {{"batch", SCHED_BATCH}, {"idle", SCHED_IDLE}};
  for (const auto& c : cases) {
    TempDir dir;
    pid_t child = ::fork();
    if (child == 0) {
      ::execl(BrinkBinary().c_str(), "brink", "latency", "-q", "--policy", c.name, "--save", dir.File("j").c_str(), nullptr);
      ::_exit(127);
    }
    bool seen = false;
    int status = 0;
    for (int i = 0; i < 60'000 && !seen; ++i) {
      ::usleep(1000);
      std::error_code error;
      for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(child) + "/task", error)) {
        if (::sched_getscheduler(std::atoi(task.path().filename().c_str())) == c.policy) seen = true;
      }
    }
    ::kill(child, SIGTERM);
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(seen) << c.name;
    EXPECT_EQ(status, 0) << c.name;
  }
}

TEST(Option, DeadlinePolicyRunsOrNamesItsCause) {
  ProcessResult run = RunBrink({"latency", "-q", "-l", "3", "--policy", "deadline:200us:1ms", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  if (json["threads"][0]["policy"] != "deadline") {
    EXPECT_THAT(run.err, HasSubstr("SCHED_DEADLINE was refused"));
  }
}

TEST(Option, PriospreadCountsDown) {
  NEED_FIFO();
  RUN_OR_FAIL(run, {"--priospread", "-p", "7", "-t3", "-l", "2"});
  CyclicOutput out = ParseOf(run);
  EXPECT_EQ(out.statuses[0].priority, 7);
  EXPECT_EQ(out.statuses[2].priority, 5);
}

TEST(Option, RelativeSystemAndPosixTimersMeasure) {
  for (std::vector<std::string> mode : {std::vector<std::string>{"-r"}, {"-s"}, {"-x"}, {"-s", "-x"}}) {
    mode.insert(mode.end(), {"-l", "10"});
    RUN_OR_FAIL(run, mode);
    EXPECT_EQ(ParseOf(run).statuses[0].cycles, 10u) << mode[0];
    EXPECT_GE(ParseOf(run).statuses[0].min, 0) << mode[0];
  }
}

// A thread that lost its CPU between the signal and reading the clock took the next period's signal for one period later.
TEST(Option, PosixTimerKeepsItsDeadlinesOnABusyCpu) {
  const int cpu = AllowedCpus().front();
  std::vector<pid_t> hogs;
  for (int i = 0; i < 2; ++i) {
    const pid_t hog = ::fork();
    if (hog == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      for (volatile bool busy = true; busy;) {
      }
      ::_exit(0);
    }
    hogs.push_back(hog);
  }
  ProcessResult run = RunBrink({"latency", "-q", "-x", "-i", "100", "-l", "5000", "-a", std::to_string(cpu), "--policy", "other", "--format", "json"});
  for (pid_t hog : hogs) {
    ::kill(hog, SIGKILL);
    ::waitpid(hog, nullptr, 0);
  }
  ASSERT_EQ(run.status, 0) << run.err;
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["threads"][0]["early"], 0) << json["threads"][0]["missed_periods"];
}

TEST(Option, SmpIsOneThreadForEachCpu) { EXPECT_EQ(CpusOf({"-S"}), AllowedCpus()); }

TEST(Option, SmpIgnoresAffinityBeforeAndBehind) {
  for (std::vector<std::string> order : {std::vector<std::string>{"-S", "-a", "0"}, {"-a", "0", "-S"}}) {
    order.insert(order.end(), {"-l", "2"});
    RUN_OR_FAIL(run, order);
    EXPECT_THAT(run.err, HasSubstr("WARN: -a ignored due to smp mode"));
    EXPECT_EQ(ParseOf(run).statuses.size(), AllowedCpus().size());
  }
}

TEST(Option, ThreadsWithAndWithoutNumber) {
  RUN_OR_FAIL(three, {"-t", "3", "-l", "2"});
  EXPECT_EQ(ParseOf(three).statuses.size(), 3u);
  RUN_OR_FAIL(zero, {"-t", "0", "-l", "2"});
  EXPECT_EQ(ParseOf(zero).statuses.size(), AllowedCpus().size());
  RUN_OR_FAIL(next, {"-t", "-l", "2"});
  EXPECT_EQ(ParseOf(next).statuses.size(), AllowedCpus().size());
}

TEST(Option, NumbersAreNotGuessed) {
  for (std::vector<std::string> args : {std::vector<std::string>{"-l", "ten"}, {"-i", "1k"}, {"-p", "8x"}, {"-b", ""}}) EXPECT_EQ(Cyc(args).status, 2) << args[1];
}

}  // namespace
}  // namespace brink::latency
