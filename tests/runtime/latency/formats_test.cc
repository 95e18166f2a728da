// Output compared with the real cyclictest's by one parser, signals, the pipe, brink's own formats.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "latency/cpu_set.h"
#include "latency/oslat_text.h"
#include "latency/outputs.h"
#include "runtime/latency/support.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kReal = "/usr/bin/cyclictest";

// A child that runs brink as cyclictest with its output in files.
class Child {
 public:
  explicit Child(std::vector<std::string> args) {
    args.insert(args.begin(), {"brink", "latency", "--format", "cyclictest"});
    pid_ = ::fork();
    if (pid_ != 0) return;
    std::vector<char*> words;
    for (std::string& arg : args) words.push_back(arg.data());
    words.push_back(nullptr);
    ::dup2(::open(dir_.File("out").c_str(), O_WRONLY | O_CREAT, 0600), 1);
    ::dup2(::open(dir_.File("err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    ::execv(BrinkBinary().c_str(), words.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) End(SIGKILL);
  }
  pid_t pid() const { return pid_; }
  std::string Out() const { return Text("out"); }
  std::string Err() const { return Text("err"); }
  // Until `done` or for a minute.
  template <typename Done>
  bool WaitFor(const Done& done) {
    for (int i = 0; i < 12'000; ++i) {
      if (done()) return true;
      ::usleep(5000);
    }
    return false;
  }
  int End(int signal) {
    if (signal) ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::string Text(const char* name) const {
    auto text = ReadFile(dir_.File(name));
    return text.ok() ? *text : "";
  }
  TempDir dir_;
  pid_t pid_ = 0;
};

// What of an output is its form, not its figures.
std::string Shape(const CyclicOutput& out) {
  std::string shape;
  auto add = [&](const std::string& name, size_t value) { shape += name + "=" + std::to_string(value) + " "; };
  add("dma", out.dma_latency_us.has_value());
  add("statuses", out.statuses.size());
  for (const auto& status : out.statuses) add("prio", static_cast<size_t>(status.priority)), add("interval", static_cast<size_t>(status.interval_us));
  add("histogram", out.has_histogram);
  add("total", out.has_total_line);
  add("buckets", out.buckets.size());
  if (!out.buckets.empty()) add("columns", out.buckets[0].second.size());
  add("min", out.min.size());
  add("max", out.max.size());
  add("overflows", out.overflows.size());
  add("logs", out.overflow_cycles.size());
  add("samples", out.samples.size());
  add("spikes", out.spikes.size());
  add("seen", out.spikes_seen.value_or(0));
  add("ids", out.thread_ids.size());
  add("break", out.break_value.has_value());
  for (const std::string& line : out.other) shape += "\n  " + line;
  return shape;
}

TEST(AgainstCyclictest, OneParserSeesTheSameForms) {
  if (::access(kReal, X_OK) != 0) GTEST_SKIP() << "needs cyclictest (package rt-tests)";
  // --old-histogram because Debian 12 has 2.4. One thread, as others are cut off at a moment of their own.
  const std::vector<std::vector<std::string>> cases = {
      {"-q", "-l", "20"}, {"-q", "-l", "20", "-i", "2000"}, {"-q", "-l", "20", "-N"}, {"-q", "-l", "20", "-m"}, {"-q", "-l", "20", "-r"}, {"-q", "-l", "20", "-s"},
      {"-q", "-l", "20", "-x"}, {"-q", "-l", "20", "-p", "20"}, {"-q", "-l", "20", "--policy=rr"}, {"-q", "-l", "20", "-h", "60"}, {"-q", "-l", "20", "-t2", "-h", "60"},
      {"-q", "-l", "20", "-t2", "-a", "0"}, {"-q", "-l", "20", "--default-system"}, {"-q", "-l", "20", "--latency=5"}, {"-q", "-l", "20", "--spike=1", "--spike-nodes=4"},
      {"-q", "-b", "1", "-l", "100000"}, {"-q", "-b", "5000000", "-l", "10"}, {"-q", "-t2", "-d", "100", "-l", "20"}, {"-q", "-A", "100", "-t2", "-l", "20"},
      {"-q", "-c", "1", "-l", "20"}, {"-q", "-S", "-l", "20"}, {"-q", "-l", "20", "-u"},
  };
  for (const auto& args : cases) {
    std::vector<std::string> real = args, ours = args;
    real.insert(real.begin(), kReal);
    ours.push_back("--old-histogram");
    ProcessResult theirs = testing_support::Run(real), brinks = RunAsCyclictest(ours);
    std::string words;
    for (const auto& arg : args) words += arg + " ";
    EXPECT_EQ(theirs.status, brinks.status) << words << brinks.err;
    EXPECT_EQ(Shape(ParseOf(theirs)), Shape(ParseOf(brinks))) << words << "\n" << theirs.out << "\n" << brinks.out;
  }
}

TEST(AgainstCyclictest, JsonHasTheSameKeys) {
  if (::access(kReal, X_OK) != 0) GTEST_SKIP() << "needs cyclictest (package rt-tests)";
  TempDir dir;
  testing_support::Run({kReal, "-q", "-l", "20", "-h", "100000", "--json=" + dir.File("theirs")});
  RunAsCyclictest({"-q", "-l", "20", "-h", "100000", "--json=" + dir.File("ours")});
  auto theirs = nlohmann::json::parse(*ReadFile(dir.File("theirs")), nullptr, false);
  auto ours = nlohmann::json::parse(*ReadFile(dir.File("ours")), nullptr, false);
  ASSERT_FALSE(theirs.is_discarded() || ours.is_discarded());
  auto keys = [](const nlohmann::json& json) {
    std::vector<std::string> names;
    for (const auto& [key, value] : json.items()) names.push_back(key + ":" + value.type_name());
    return names;
  };
  EXPECT_EQ(keys(theirs), keys(ours));
  EXPECT_EQ(keys(theirs["sysinfo"]), keys(ours["sysinfo"]));
  EXPECT_EQ(keys(theirs["thread"]["0"]), keys(ours["thread"]["0"]));
}

TEST(AgainstCyclictest, ReportReadsBoth) {
  if (::access(kReal, X_OK) != 0) GTEST_SKIP() << "needs cyclictest (package rt-tests)";
  TempDir dir;
  ProcessResult real = testing_support::Run({kReal, "-q", "-l", "30", "-h", "1000", "--json=" + dir.File("j")});
  std::string text = dir.File("t");
  {
    auto fd = OpenFile(text, O_WRONLY | O_CREAT);
    ASSERT_TRUE(fd.ok() && WriteAll(fd->get(), real.out.data(), real.out.size()).ok());
  }
  for (const std::string& file : {text, dir.File("j")}) {
    ProcessResult run = RunBrink({"latency", "report", "--format", "json", file});
    ASSERT_EQ(run.status, 0) << run.err;
    auto json = nlohmann::json::parse(run.out, nullptr, false);
    EXPECT_EQ(json["total"]["count"], 30) << file;
  }
}

TEST(Signals, Usr1PrintsStatusOnStderr) {
  Child child({"-q", "-t2"});
  ASSERT_TRUE(child.WaitFor([&] {
    ::kill(child.pid(), SIGCONT);
    return child.Out().find("# /dev/cpu_dma") != std::string::npos || !child.Err().empty();
  }));
  ASSERT_TRUE(child.WaitFor([&] {
    ::kill(child.pid(), SIGUSR1);
    return ParseCyclicText(child.Err()).statuses.size() == 2 && ParseCyclicText(child.Err()).statuses[0].cycles > 0;
  }));
  EXPECT_THAT(child.Err(), HasSubstr("#---------------------------\n# cyclictest current status:\n"));
  EXPECT_EQ(child.End(SIGINT), 0);
  EXPECT_EQ(ParseCyclicText(child.Out()).statuses.size(), 2u);
}

TEST(Signals, Usr2WritesASnapshotThatDoesNotGrow) {
  Child child({"-q", "-u"});
  std::string path = "/dev/shm/cyclictest" + std::to_string(child.pid());
  ASSERT_TRUE(child.WaitFor([&] { return !child.Out().empty() || !child.Err().empty(); }));
  // Twenty snapshots, each of which is seen to be written: its cycles are more than the one's before.
  uint64_t cycles = 0;
  for (int i = 0; i < 20; ++i) {
    std::string text;
    ASSERT_TRUE(child.WaitFor([&] {
      ::kill(child.pid(), SIGUSR2);
      auto read = ReadFile(path);
      text = read.ok() ? *read : "";
      CyclicOutput out = ParseCyclicText(text);
      return !out.statuses.empty() && out.statuses.back().cycles > cycles;
    }));
    CyclicOutput out = ParseCyclicText(text);
    ASSERT_EQ(out.statuses.size(), 1u) << text;
    cycles = out.statuses[0].cycles;
    // Fields grow with their figures: nothing else does.
    EXPECT_LT(text.size(), 400u) << text;
  }
  EXPECT_EQ(child.End(SIGTERM), 0);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the snapshot is left behind";
}

TEST(Fifo, HandsOutStatusAndLeavesNothing) {
  TempDir dir;
  std::string path = dir.File("pipe");
  Child child({"-q", "-F", path, "-t2"});
  ASSERT_TRUE(child.WaitFor([&] { return ::access(path.c_str(), F_OK) == 0; }));
  auto text = ReadFile(path, 1 << 20);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(ParseCyclicText(*text).statuses.size(), 2u);
  EXPECT_EQ(child.End(SIGTERM), 0);
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the pipe is left behind";
}

TEST(Fifo, AReaderIsNeverLeftHanging) {
  TempDir dir;
  std::string path = dir.File("pipe");
  Child child({"-q", "-F", path});
  ASSERT_TRUE(child.WaitFor([&] { return ::access(path.c_str(), F_OK) == 0; }));
  ::kill(child.pid(), SIGSTOP);
  pid_t reader = ::fork();
  if (reader == 0) {
    // Blocks in open() until somebody writes; cyclictest's exit leaves it there for ever.
    ::alarm(30);
    int fd = ::open(path.c_str(), O_RDONLY);
    char block[4096];
    while (::read(fd, block, sizeof block) > 0) continue;
    ::_exit(0);
  }
  ::usleep(50'000);
  ::kill(child.pid(), SIGTERM);
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(child.End(0), 0);
  int status = -1;
  ::waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0) << "the reader had to be killed";
}

TEST(Fifo, AFileInTheWayIsNotRemoved) {
  TempDir dir;
  std::string path = dir.File("precious");
  ::close(::open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  ProcessResult run = RunAsCyclictest({"-q", "-l", "2", "-F", path});
  EXPECT_EQ(run.status, 1);
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

TEST(OwnFormats, TextHasPercentilesAndNoFrames) {
  ProcessResult run = RunBrink({"latency", "-l", "50", "-t2"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::AllOf(HasSubstr("p99.9"), HasSubstr("ended by loops"), testing::Not(HasSubstr("\033["))));
}

TEST(OwnFormats, SavedResultIsReadAgain) {
  TempDir dir;
  ProcessResult run = RunBrink({"latency", "-q", "-l", "50", "--format", "json", "--save", dir.File("r"), "--plot", dir.File("p.svg")});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(nlohmann::json::parse(run.out, nullptr, false).is_discarded()) << run.out;
  ProcessResult again = RunBrink({"latency", "report", dir.File("r"), "--format", "csv"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("thread,cpu,low_ns,high_ns,count\n0,-1,"));
  EXPECT_THAT(*ReadFile(dir.File("p.svg")), HasSubstr("</svg>"));
}

TEST(OwnFormats, JsonMatchesItsSchema) {
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  TempDir dir;
  ASSERT_EQ(RunBrink({"latency", "-q", "-l", "20", "-t2", "-d", "5000000", "-b", "1000000", "--save", dir.File("r")}).status, 0);
  ProcessResult check = testing_support::Run({"/usr/bin/python3", "-c", "import json,jsonschema,sys\njsonschema.validate(json.load(open(sys.argv[2])),json.load(open(sys.argv[1])))",
                                              testing_support::SourceDir() + "/docs/schema/latency.json", dir.File("r")});
  EXPECT_EQ(check.status, 0) << check.err;
}

// Labels and number of columns of oslat's output.
std::vector<std::string> OslatLines(const std::string& text) {
  std::vector<std::string> lines;
  bool begun = false;
  for (std::string_view line : Split(text, '\n')) {
    begun |= line.find("Core:") != line.npos;
    size_t colon = line.find(':');
    if (!begun || colon == line.npos) continue;
    std::string unit = std::string(line.substr(line.rfind('(') == line.npos || line.rfind('(') < colon ? line.size() : line.rfind('(')));
    size_t columns = 0;
    for (std::string_view word : Split(line.substr(colon + 1), ' ')) columns += !word.empty() && Trim(word).find_first_not_of("0123456789.") == word.npos && !Trim(word).empty();
    lines.push_back(std::string(Trim(line.substr(0, colon))) + "|" + unit + "|" + std::to_string(columns));
  }
  return lines;
}

TEST(Busy, PrintsAsOslatDoes) {
  constexpr const char* kOslat = "/usr/bin/oslat";
  if (::access(kOslat, X_OK) != 0) GTEST_SKIP() << "needs oslat (package rt-tests)";
  const std::string cpu = std::to_string(AllowedCpus()[0]);
  ProcessResult real = testing_support::Run({kOslat, "-q", "-c", cpu, "-D", "1", "-b", "8"});
  ProcessResult ours = RunBrink({"latency", "busy", "-C", cpu, "-D", "1", "--format", "oslat", "--buckets", "8"});
  ASSERT_EQ(real.status, 0) << real.err;
  ASSERT_EQ(ours.status, 0) << ours.err;
  EXPECT_EQ(OslatLines(real.out), OslatLines(ours.out)) << real.out << ours.out;
  EXPECT_EQ(OslatLines(ours.out).size(), 15u);
}

TEST(Busy, OslatsBucketsHoldEveryTurnOfTheLoop) {
  TempDir dir;
  ASSERT_EQ(RunBrink({"latency", "busy", "-C", std::to_string(AllowedCpus()[0]), "-D", "1", "--save", dir.File("r")}).status, 0);
  auto document = ParseResultJson(*ReadFile(dir.File("r")));
  ASSERT_TRUE(document.ok());
  const ThreadResult& cpu = document->result.threads[0];
  EXPECT_GT(cpu.loops, cpu.values.total());
  EXPECT_GT(cpu.counter_mhz, 1);
  uint64_t sum = 0;
  for (uint64_t bucket : OslatBuckets(cpu, 16)) sum += bucket;
  EXPECT_EQ(sum, cpu.loops);
  // The same from the file.
  ProcessResult again = RunBrink({"latency", "report", "--format", "oslat", "--zero-omit", dir.File("r")});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("    001 (us):\t " + std::to_string(OslatBuckets(cpu, 32)[0])));
  EXPECT_EQ(RunBrink({"latency", "watch", "-a", "-D", "1", "--format", "oslat"}).status, 2);
}

TEST(OwnFormats, FailAboveIsStatusFour) {
  EXPECT_EQ(RunBrink({"latency", "-q", "-l", "20", "--fail-above", "0"}).status, 4);
  EXPECT_EQ(RunBrink({"latency", "-q", "-l", "20", "--fail-above", "3000000000"}).status, 0);
}

TEST(OwnFormats, WarmUpSamplesAreNotCounted) {
  ProcessResult run = RunBrink({"latency", "-q", "-l", "10", "--warm-up", "100ms", "--format", "json"});
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << run.out << run.err;
  EXPECT_EQ(json["total"]["count"], 10);
  EXPECT_GE(json["elapsed_ns"], 100'000'000);
}

TEST(OwnFormats, MissedPeriodsAreCounted) {
  // A process stopped for 30 ms and more misses at least twenty periods of 1 ms.
  TempDir dir;
  pid_t child = ::fork();
  if (child == 0) {
    ::execl(BrinkBinary().c_str(), "brink", "latency", "-q", "--save", dir.File("r").c_str(), "-F", dir.File("f").c_str(), nullptr);
    ::_exit(127);
  }
  // Waits until there are more cycles than `than` to tell of, a minute at most; how many.
  auto cycles_above = [&](uint64_t than) -> uint64_t {
    for (int i = 0; i < 12'000; ++i) {
      ::usleep(5000);
      if (::access(dir.File("f").c_str(), R_OK) != 0) continue;
      auto status = ReadFile(dir.File("f"), 1 << 20);
      if (!status.ok()) continue;
      CyclicOutput out = ParseCyclicText(*status);
      if (!out.statuses.empty() && out.statuses[0].cycles > than) return out.statuses[0].cycles;
    }
    return 0;
  };
  uint64_t before = cycles_above(0);
  ASSERT_GT(before, 0u);
  ::kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  ::usleep(30'000);
  ::kill(child, SIGCONT);
  // The stop itself may have come long after `before` was seen.
  uint64_t after = cycles_above(before);
  ASSERT_GT(cycles_above(after), after);
  ::kill(child, SIGTERM);
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  auto document = ParseResultJson(*ReadFile(dir.File("r")));
  ASSERT_TRUE(document.ok());
  EXPECT_GE(document->result.threads[0].missed, 20u);
  EXPECT_GE(document->result.threads[0].Corrected().total(), document->result.threads[0].values.total() + 20);
}

}  // namespace
}  // namespace brink::latency
