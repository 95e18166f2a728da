// One test for each option of cyclictest (docs/latency.md names them): same letter, same meaning. No test judges how
// long anything took.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "latency/cpu_set.h"
#include "runtime/latency/group.h"
#include "runtime/latency/support.h"

namespace brink::latency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ProcessResult Cyc(std::vector<std::string> args) {
  args.push_back("-q");
  return RunAsCyclictest(args);
}

#define RUN_OR_FAIL(name, ...)          \
  ProcessResult name = Cyc(__VA_ARGS__); \
  ASSERT_EQ(name.status, 0) << name.err

// The CPU each thread was pinned to, from cyclictest's JSON.
std::vector<int> CpusOf(std::vector<std::string> args) {
  args.insert(args.end(), {"-l", "2", "--json=-"});
  ProcessResult run = Cyc(args);
  size_t brace = run.out.find('{');
  if (brace == std::string::npos) return {};
  std::string text = run.out.substr(brace, run.out.rfind("}\n") + 1 - brace);
  auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<int> cpus;
  if (json.is_discarded()) return cpus;
  for (const auto& [key, thread] : json["thread"].items()) cpus.push_back(thread["cpu"]);
  return cpus;
}

bool CanFifo() {
  pid_t child = ::fork();
  if (child == 0) {
    sched_param param = {.sched_priority = 1};
    ::_exit(::sched_setscheduler(0, SCHED_FIFO, &param) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define NEED_FIFO() \
  if (!CanFifo()) GTEST_SKIP() << "needs the right to SCHED_FIFO"

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

TEST(Option, HistogramCountsEverySampleOnce) {
  RUN_OR_FAIL(run, {"-h", "400", "-l", "50", "-t2"});
  CyclicOutput out = ParseOf(run);
  ASSERT_TRUE(out.has_histogram);
  EXPECT_TRUE(out.statuses.empty());
  uint64_t sum = out.overflows[0];
  for (const auto& [value, counts] : out.buckets) {
    EXPECT_LT(value, 400);
    EXPECT_EQ(counts.size(), 2u);
    sum += counts[0];
  }
  EXPECT_LE(sum, 50u);
  EXPECT_GE(sum + out.overflows[1], 1u);
  EXPECT_EQ(Cyc({"-h", "0", "-l", "1"}).status, 2);
}

TEST(Option, HistofallAddsColumnsEverywhere) {
  RUN_OR_FAIL(run, {"-H", "100", "-l", "20", "-t2"});
  CyclicOutput out = ParseOf(run);
  EXPECT_EQ(out.max.size(), 3u);
  EXPECT_EQ(out.overflows.size(), 3u);
  EXPECT_EQ(out.overflows[2], out.overflows[0] + out.overflows[1]);
}

TEST(Option, HistofallOfOneThreadIsTheHistogram) {
  // cyclictest prints the sum column on bucket lines only.
  RUN_OR_FAIL(run, {"-H", "1000", "-l", "30"});
  CyclicOutput out = ParseOf(run);
  for (const auto& [value, counts] : out.buckets) EXPECT_EQ(counts.size(), 1u) << value;
  EXPECT_EQ(out.max.size(), 1u);
  EXPECT_EQ(out.overflows.size(), 1u);
}

TEST(Option, HistfileHoldsTheHistogram) {
  TempDir dir;
  RUN_OR_FAIL(run, {"-h", "100", "-l", "5", "--histfile=" + dir.File("h")});
  EXPECT_THAT(run.out, Not(HasSubstr("# Histogram")));
  auto text = ReadFile(dir.File("h"));
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(ParseCyclicText(*text).has_histogram);
}

TEST(Option, HistfileThatCannotBeWrittenIsAnError) {
  // cyclictest loses the histogram and returns 0.
  ProcessResult run = Cyc({"-h", "100", "-l", "2", "--histfile=/nonexistent/h"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("/nonexistent/h"));
}

TEST(Option, IntervalZeroIsRefusedAtOnce) {
  ProcessResult run = Cyc({"-i", "0"});
  EXPECT_EQ(run.status, 2);
  EXPECT_FALSE(run.timed_out);
}

TEST(Option, JsonIsValidWithQuotesInTheCommandLine) {
  TempDir dir;
  RUN_OR_FAIL(run, {"-l", "5", "--json=" + dir.File("a\"b")});
  auto text = ReadFile(dir.File("a\"b"));
  ASSERT_TRUE(text.ok());
  auto json = nlohmann::json::parse(*text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << *text;
  EXPECT_EQ(json["file_version"], 1);
  EXPECT_EQ(json["thread"]["0"]["cycles"], 5);
}

TEST(Option, JsonOfAThreadWithoutSamples) {
  TempDir dir;
  RUN_OR_FAIL(run, {"-l", "1", "-t2", "-d", "100000000", "--json=" + dir.File("j")});
  auto text = ReadFile(dir.File("j"));
  auto json = nlohmann::json::parse(*text, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << *text;
  EXPECT_EQ(json["thread"]["1"]["cycles"], 0);
  EXPECT_TRUE(json["thread"]["1"]["avg"].is_null());
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

TEST(Option, RefreshOnMaxEnds) {
  // Five samples in a second have five new maxima at most; without the option there is a frame every 10 ms.
  ProcessResult run = RunAsCyclictest({"-M", "-l", "5", "-i", "200000"});
  EXPECT_EQ(run.status, 0);
  EXPECT_GE(ParseOf(run).frames, 1u);
  EXPECT_LE(ParseOf(run).frames, 6u) << run.out;
}

TEST(Option, NsecsPrintsNanoseconds) {
  RUN_OR_FAIL(us, {"-l", "20"});
  RUN_OR_FAIL(ns, {"-l", "20", "-N"});
  EXPECT_GT(ParseOf(ns).statuses[0].min, 999);
  EXPECT_NE(ParseOf(ns).statuses[0].max % 1000 + ParseOf(ns).statuses[0].min % 1000 + ParseOf(ns).statuses[0].act % 1000, 0);
}

TEST(Option, NsecsKeepsTheHistogramsBuckets) {
  // cyclictest's buckets are 1 ns wide then, and everything overflows.
  TempDir dir;
  RUN_OR_FAIL(run, {"-N", "-h", "1000000", "-l", "50", "--json=" + dir.File("j")});
  CyclicOutput out = ParseOf(run);
  uint64_t sum = 0;
  for (const auto& [value, counts] : out.buckets) {
    EXPECT_EQ(value % 1000, 0) << value;
    sum += counts[0];
  }
  EXPECT_EQ(sum + out.overflows[0], 50u);
  EXPECT_GT(sum, 0u);
  auto json = nlohmann::json::parse(*ReadFile(dir.File("j")), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["thread"]["0"]["histogram"].size(), out.buckets.size());
  EXPECT_TRUE(json["thread"]["0"]["histogram"].contains(std::to_string(out.buckets[0].first)));
}

TEST(Option, OscopeReducesVerboseOutput) {
  RUN_OR_FAIL(run, {"-v", "-o", "4", "-l", "16"});
  EXPECT_EQ(ParseOf(run).samples.size(), 4u);
  EXPECT_EQ(Cyc({"-o", "4", "-l", "4"}).status, 2);
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

TEST(Option, ResolutionIsCompared) {
  RUN_OR_FAIL(run, {"-R", "-l", "2"});
  EXPECT_THAT(run.err, testing::AnyOf(testing::IsEmpty(), HasSubstr("measured clock resolution approximately:")));
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

// Registers of a machine that does not exist: 8 bytes at offset 0x34 of DIR/CPU/msr.
void WriteMsr(const std::string& dir, int cpu, uint64_t count) {
  std::filesystem::create_directories(dir + "/" + std::to_string(cpu));
  int fd = ::open((dir + "/" + std::to_string(cpu) + "/msr").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::pwrite(fd, &count, sizeof count, 0x34), 8);
  ::close(fd);
}

TEST(Option, SmiCountsWhatTheRegisterGains) {
  TempDir dir;
  int cpu = AllowedCpus()[0];
  WriteMsr(dir.path(), cpu, 0xfffffffe);
  TempDir pipe_dir;
  std::string fifo = pipe_dir.File("f");
  std::string out = pipe_dir.File("out");
  pid_t child = ::fork();
  if (child == 0) {
    int fd = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(fd, 1);
    ::execl(BrinkBinary().c_str(), "brink", "latency", "--format", "cyclictest", "-q", "-a", std::to_string(cpu).c_str(), "--smi", "--msr-root", dir.path().c_str(), "-F", fifo.c_str(), nullptr);
    ::_exit(127);
  }
  // A status line proves that the base was read; then five interrupts, beyond the end of the 32-bit counter.
  bool raised = false;
  for (int i = 0; i < 2000 && !raised; ++i) {
    std::ifstream status(fifo);
    std::string line;
    if (std::getline(status, line) && ParseCyclicText(line).statuses.size() == 1 && ParseCyclicText(line).statuses[0].cycles > 0) raised = true;
    else ::usleep(5000);
  }
  ASSERT_TRUE(raised);
  WriteMsr(dir.path(), cpu, 3);
  uint64_t seen = 0;
  for (int i = 0; i < 2000 && seen != 5; ++i) {
    std::ifstream status(fifo);
    std::string line;
    std::getline(status, line);
    CyclicOutput parsed = ParseCyclicText(line);
    if (!parsed.statuses.empty()) seen = parsed.statuses[0].smi.value_or(0);
    ::usleep(1000);
  }
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(seen, 5u);
  auto text = ReadFile(out);
  EXPECT_EQ(ParseCyclicText(*text).statuses[0].smi, 5u);
}

TEST(Option, SpikesAreRecordedUpToTheLimit) {
  RUN_OR_FAIL(run, {"--spike-nodes=3", "--spike=1", "-l", "10"});
  CyclicOutput out = ParseOf(run);
  EXPECT_EQ(out.spikes.size(), 3u);
  EXPECT_EQ(out.spikes_seen, 10u);
  for (const auto& spike : out.spikes) EXPECT_GT(spike.value, 1);
}

TEST(Option, ThreadsWithAndWithoutNumber) {
  RUN_OR_FAIL(three, {"-t", "3", "-l", "2"});
  EXPECT_EQ(ParseOf(three).statuses.size(), 3u);
  RUN_OR_FAIL(zero, {"-t", "0", "-l", "2"});
  EXPECT_EQ(ParseOf(zero).statuses.size(), AllowedCpus().size());
  RUN_OR_FAIL(next, {"-t", "-l", "2"});
  EXPECT_EQ(ParseOf(next).statuses.size(), AllowedCpus().size());
}

TEST(Option, UnbufferedAndDebugAreTaken) {
  RUN_OR_FAIL(run, {"-u", "--dbg_cyclictest", "-l", "2"});
  EXPECT_THAT(run.err, HasSubstr("INFO: clock monotonic"));
}

TEST(Option, VerbosePrintsEverySampleOnce) {
  RUN_OR_FAIL(run, {"-v", "-l", "30", "-i", "1500"});
  CyclicOutput out = ParseOf(run);
  ASSERT_EQ(out.samples.size(), 30u);
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(out.samples[i].cycle, i);
  // cyclictest prints the next thread's interval.
  EXPECT_THAT(run.out, HasSubstr("Thread 0 Interval: 1500\n"));
  EXPECT_THAT(run.out, HasSubstr("Max CPUs = "));
}

// A kernel (a sandbox, here) that refuses to let it sleep: the error is named, not "Success".
TEST(Bug, ASleepThatFailsNamesItsError) {
  TempDir dir;
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(dir.File("err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 0, 2),
                            // Of the absolute sleeps of measuring threads only.
                            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIMER_ABSTIME, 1, 0),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
    sock_fprog program = {std::size(filter), filter};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
    ::execl(BrinkBinary().c_str(), "brink", "latency", "-q", "-l", "3", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs seccomp filters";
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(*ReadFile(dir.File("err")), HasSubstr("the sleep failed: Operation not permitted"));
}

class Unprivileged : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || ::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "needs root and setpriv, to become nobody";
    ::chmod(dir_.path().c_str(), 0777);
    std::filesystem::copy_file(BrinkBinary(), dir_.File("brink"));
    ::chmod(dir_.File("brink").c_str(), 0755);
  }
  ProcessResult AsNobody(std::vector<std::string> args) {
    std::vector<std::string> words = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "prlimit", "--memlock=65536", "--rtprio=0", dir_.File("brink"), "latency"};
    words.insert(words.end(), args.begin(), args.end());
    return testing_support::Run(words);
  }
  TempDir dir_;
};

TEST_F(Unprivileged, MeasuresWhatItCanAndSaysWhatItCouldNot) {
  ProcessResult run = AsNobody({"-q", "-l", "10", "-p", "80", "-m", "--blame", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["total"]["count"], 10);
  EXPECT_EQ(json["threads"][0]["policy"], "other");
  std::string notices = json["notices"].dump();
  for (const char* part : {"SCHED_FIFO priority 80 was refused: no CAP_SYS_NICE and RLIMIT_RTPRIO is 0", "mlockall", "cpu_dma_latency", "without reasons"}) {
    EXPECT_THAT(notices, HasSubstr(part));
    EXPECT_THAT(run.err, HasSubstr(part));
  }
}

TEST_F(Unprivileged, CyclictestsFormatEndsAsCyclictestDoesWithTheReason) {
  ProcessResult run = AsNobody({"-q", "-l", "10", "-p", "80", "--format", "cyclictest"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, testing::AllOf(HasSubstr("Unable to change scheduling policy!"), HasSubstr("no CAP_SYS_NICE")));
}

TEST(Rights, ACpuGroupWithoutRealTimeIsNamed) {
  Group group("cpu");
  if (!group.ok() || group.v2() || ::access((group.path() + "/cpu.rt_runtime_us").c_str(), F_OK) != 0) GTEST_SKIP() << "needs cpu.rt_runtime_us (the cpu controller on v1)";
  ASSERT_TRUE(group.Set("cpu.rt_runtime_us", "0"));
  ProcessResult run = testing_support::Run({"/bin/sh", "-c", "echo $$ > " + group.path() + "/cgroup.procs; exec " + BrinkBinary() + " latency -q -l 5 -p 80 --format json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("has cpu.rt_runtime_us 0"));
  EXPECT_THAT(nlohmann::json::parse(run.out, nullptr, false)["notices"].dump(), HasSubstr("cpu.rt_runtime_us 0"));
}

TEST(Option, HelpUnknownAndQuestionMark) {
  EXPECT_EQ(RunAsCyclictest({"--help"}).status, 0);
  EXPECT_EQ(RunAsCyclictest({"-?"}).status, 0);
  EXPECT_EQ(RunAsCyclictest({"--no-such"}).status, 2);
  EXPECT_EQ(RunAsCyclictest({"-Z"}).status, 2);
}

TEST(Option, NumbersAreNotGuessed) {
  for (std::vector<std::string> args : {std::vector<std::string>{"-l", "ten"}, {"-i", "1k"}, {"-p", "8x"}, {"-b", ""}}) EXPECT_EQ(Cyc(args).status, 2) << args[1];
}

}  // namespace
}  // namespace brink::latency
