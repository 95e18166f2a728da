// One test for each option of cyclictest that says what is printed, and where.
#include <fcntl.h>
#include <signal.h>

#include <fstream>

#include "base/fd.h"
#include "latency/cpu_set.h"
#include "runtime/latency/options.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(Option, ResolutionIsCompared) {
  RUN_OR_FAIL(run, {"-R", "-l", "2"});
  EXPECT_THAT(run.err, testing::AnyOf(testing::IsEmpty(), HasSubstr("measured clock resolution approximately:")));
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

TEST(Option, HelpUnknownAndQuestionMark) {
  EXPECT_EQ(RunAsCyclictest({"--help"}).status, 0);
  EXPECT_EQ(RunAsCyclictest({"-?"}).status, 0);
  EXPECT_EQ(RunAsCyclictest({"--no-such"}).status, 2);
  EXPECT_EQ(RunAsCyclictest({"-Z"}).status, 2);
}

}  // namespace
}  // namespace brink::latency
