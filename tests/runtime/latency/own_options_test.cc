// brink's own options beside cyclictest's, and those of `watch`: one test each (docs/latency.md names them).
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <thread>

#include "base/fd.h"
#include "container/hierarchy.h"
#include "kernel/tracefs.h"
#include "latency/cpu_set.h"
#include "latency/outputs.h"
#include "runtime/latency/options.h"
#include "support/features.h"

namespace brink::latency {
namespace {

using testing::HasSubstr;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Own, WorstKeepsTheLargest) {
  ProcessResult run = RunBrink({"latency", "-q", "-l", "100", "--worst", "3", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto thread = nlohmann::json::parse(run.out)["threads"][0];
  ASSERT_EQ(thread["worst"].size(), 3u);
  EXPECT_EQ(thread["worst"][0]["ns"], thread["latency"]["max_ns"]) << thread;
  EXPECT_GE(thread["worst"][0]["ns"], thread["worst"][1]["ns"]);
  EXPECT_GE(thread["worst"][1]["ns"], thread["worst"][2]["ns"]);
}

TEST(Own, PlotIsWhatItsNameSays) {
  TempDir dir;
  struct { const char* file; const char* head; } cases[] = {{"p.svg", "<svg"}, {"p.html", "<!doctype html>"}, {"p.png", "\x89PNG\r\n"}};
  ASSERT_EQ(RunBrink({"latency", "-q", "-l", "50", "-t2", "--save", dir.File("r")}).status, 0);
  for (const auto& c : cases) {
    ProcessResult run = RunBrink({"latency", "report", dir.File("r"), "--plot", dir.File(c.file)});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(ReadFile(dir.File(c.file))->substr(0, 200), HasSubstr(c.head)) << c.file;
  }
  EXPECT_NE(RunBrink({"latency", "report", dir.File("r"), "--plot", dir.File("p.bmp")}).status, 0);
}

TEST(Own, OldHistogramHasEmptyBucketsAndTotals) {
  ProcessResult run = RunAsCyclictest({"-q", "-l", "20", "-h", "40", "--old-histogram"});
  ASSERT_EQ(run.status, 0) << run.err;
  CyclicOutput out = ParseOf(run);
  EXPECT_EQ(out.buckets.size(), 40u);
  EXPECT_TRUE(out.has_total_line);
}

TEST(Own, MaxSpikesLimitsWhatIsPrinted) {
  SKIP_UNLESS("bpf.tp_btf");
  TempDir dir;
  ProcessResult run = RunBrink({"latency", "-q", "-l", "50", "--blame=0", "--max-spikes", "2", "--save", dir.File("r")});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(Count(run.out, "\nlate by "), 2u) << run.out;
  EXPECT_THAT(run.out, HasSubstr("more late wake-ups are explained"));
  EXPECT_EQ(Count(RunBrink({"latency", "report", dir.File("r"), "--max-spikes", "1"}).out, "\nlate by "), 1u);
}

TEST(Own, WithoutAHeartbeatItSaysWhatCannotBeTold) {
  SKIP_UNLESS("bpf.tp_btf");
  for (const char* period : {"0", "2ms"}) {
    ProcessResult run = RunBrink({"latency", "-q", "-l", "20", "--blame", "--heartbeat", period});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(Count(run.out, "no heartbeat on the CPUs"), period[0] == '0' ? 1u : 0u) << run.out;
  }
}

// A process that wakes up all the time, with a thread of its own that does so too.
class Sleeper {
 public:
  explicit Sleeper(const std::string& group = "") {
    if (::pipe(pipe_) != 0) return;
    pid_ = ::fork();
    if (pid_ != 0) {
      if (::read(pipe_[0], &tid_, sizeof tid_) != sizeof tid_) tid_ = 0;
      return;
    }
    if (!group.empty()) {
      auto fd = OpenFile(group + "/cgroup.procs", O_WRONLY);
      if (!fd.ok() || !WriteAll(fd->get(), "0", 1).ok()) ::_exit(1);
    }
    auto doze = [] {
      while (true) ::usleep(1000);
    };
    std::thread second([&] {
      auto tid = static_cast<pid_t>(::syscall(SYS_gettid));
      if (::write(pipe_[1], &tid, sizeof tid) != sizeof tid) ::_exit(1);
      doze();
    });
    doze();
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  pid_t pid() const { return pid_; }
  pid_t tid() const { return tid_; }  // of the second thread; 0: it did not begin

 private:
  int pipe_[2] = {-1, -1};
  pid_t pid_ = 0, tid_ = 0;
};

// Wake-ups that `watch` saw in a second.
uint64_t Watched(std::vector<std::string> words) {
  words.insert(words.begin(), {"latency", "watch"});
  words.insert(words.end(), {"-D", "1", "--format", "json"});
  ProcessResult run = RunBrink(words);
  EXPECT_EQ(run.status, 0) << run.err;
  auto json = nlohmann::json::parse(run.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << run.out;
  if (json.is_discarded()) return 0;
  EXPECT_EQ(json["kind"], "watch");
  return json["total"]["count"];
}

TEST(Watch, ObservesProcessesThreadsAndAll) {
  SKIP_UNLESS("bpf.tp_btf");
  Sleeper sleeper;
  ASSERT_NE(sleeper.tid(), 0);
  const std::string pid = std::to_string(sleeper.pid()), tid = std::to_string(sleeper.tid());
  EXPECT_GT(Watched({"-p", pid}), 0u);
  EXPECT_GT(Watched({"-t", tid}), 0u);
  EXPECT_GT(Watched({"-a"}), 0u);
  // Who does not wake up is not seen.
  pid_t quiet = ::fork();
  if (quiet == 0) {
    while (true) ::pause();
  }
  EXPECT_EQ(Watched({"-p", std::to_string(quiet)}), 0u);
  ::kill(quiet, SIGKILL);
  ::waitpid(quiet, nullptr, 0);
}

TEST(Watch, AboveExplainsEachThatIsLater) {
  SKIP_UNLESS("bpf.tp_btf");
  Sleeper sleeper;
  TempDir dir;
  ASSERT_EQ(RunBrink({"latency", "watch", "-p", std::to_string(sleeper.pid()), "-D", "1", "--above", "0", "--save", dir.File("r")}).status, 0);
  auto document = ParseResultJson(*ReadFile(dir.File("r"), size_t{1} << 30));
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_FALSE(document->spikes.empty());
  for (const SpikeReport& spike : document->spikes) EXPECT_THAT(spike.tid, testing::AnyOf(sleeper.pid(), sleeper.tid()));
  EXPECT_EQ(RunBrink({"latency", "watch", "-p", std::to_string(sleeper.pid()), "-D", "1", "--fail-above", "0"}).status, 4);
}

TEST(Watch, FindsTheProcessesOfAContainer) {
  SKIP_UNLESS("bpf.tp_btf");
  char number[9];
  std::snprintf(number, sizeof number, "%08x", static_cast<unsigned>(::getpid()));
  const std::string id = "1a7e" + std::string(number) + std::string(52, 'c');
  std::string group = ChooseHierarchy().mount + "/docker-" + id + ".scope";
  if (::mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "needs a control group of its own";
  {
    Sleeper inside(group), outside;
    EXPECT_NE(inside.tid(), 0);
    TempDir dir;
    ASSERT_EQ(RunBrink({"latency", "watch", "--container", id.substr(0, 12), "-D", "1", "--above", "0", "--save", dir.File("r")}).status, 0);
    auto document = ParseResultJson(*ReadFile(dir.File("r"), size_t{1} << 30));
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_FALSE(document->spikes.empty());
    for (const SpikeReport& spike : document->spikes) EXPECT_THAT(spike.tid, testing::AnyOf(inside.pid(), inside.tid()));
  }
  for (int i = 0; i < 100 && ::rmdir(group.c_str()) != 0; ++i) ::usleep(10'000);
  EXPECT_EQ(RunBrink({"latency", "watch", "--container", "no-such-container", "-D", "1"}).status, 1);
}

TEST(Busy, GapAndPriorityAreTaken) {
  NEED_FIFO();
  const std::string cpu = std::to_string(AllowedCpus().back());
  ProcessResult run = RunBrink({"latency", "busy", "-C", cpu, "-D", "1", "-f", "3", "--gap", "1s", "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto thread = nlohmann::json::parse(run.out)["threads"][0];
  EXPECT_EQ(thread["policy"], "fifo");
  EXPECT_EQ(thread["priority"], 3);
  EXPECT_EQ(thread["cpu"], AllowedCpus().back());
  // No gap of a second: unless the machine stood still as long.
  EXPECT_LE(nlohmann::json::parse(run.out)["total"]["count"].get<uint64_t>(), 1u);
}

// oslat's -w, -m and -B: a turn with work takes longer, unless its least time is taken off.
TEST(Busy, WorkIsPartOfATurnUnlessItIsTakenOff) {
  const std::string cpu = std::to_string(AllowedCpus().back());
  auto count = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"latency", "busy", "-C", cpu, "-D", "1", "--gap", "20", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    ProcessResult run = RunBrink(words);
    EXPECT_EQ(run.status, 0) << run.err;
    auto thread = nlohmann::json::parse(run.out, nullptr, false)["threads"][0];
    return std::pair(thread["loops"].get<uint64_t>(), run.status ? 0 : thread["latency"]["count"].get<uint64_t>());
  };
  auto [loops, gaps] = count({"-w", "memmove", "-m", "4M"});
  // A copy of 4 MB takes more than 20 us anywhere.
  EXPECT_GE(gaps, loops);
  EXPECT_GT(loops, 0u);
  auto [loops_off, gaps_off] = count({"-w", "memmove", "-m", "64K", "-B", "--gap", "500ms"});
  EXPECT_GT(loops_off, loops);
  EXPECT_LT(gaps_off, 3u);
  EXPECT_EQ(RunBrink({"latency", "busy", "-w", "dance"}).status, 2);
}

// oslat's -T: the first gap above ends the run, and the trace of it stops there.
TEST(Busy, TheFirstGapAboveEndsTheRun) {
  const std::string cpu = std::to_string(AllowedCpus().back());
  TempDir dir;
  // The timer's interrupt alone is a gap of more.
  ProcessResult run = RunBrink({"latency", "busy", "-C", cpu, "-D", "60", "-T", "1", "--trace-file", dir.File("trace"), "--format", "json"});
  ASSERT_EQ(run.status, 0) << run.err;
  auto result = nlohmann::json::parse(run.out);
  EXPECT_EQ(result["ended_by"], "break");
  EXPECT_GE(result["break"]["value"], 1);
  EXPECT_EQ(result["break"]["tid"], result["threads"][0]["tid"]);
  EXPECT_LT(result["elapsed_ns"], 50'000'000'000);
  if (::geteuid() == 0 && TracefsMounted()) {
    EXPECT_THAT(*ReadFile(dir.File("trace"), size_t{1} << 30), HasSubstr("hit latency threshold"));
  } else {
    EXPECT_THAT(run.err, HasSubstr("no trace"));
  }
}

}  // namespace
}  // namespace brink::latency
