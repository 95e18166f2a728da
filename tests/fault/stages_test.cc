// What goes wrong outside of brink, at every stage of a run: its target ends or becomes another program, stands still, the
// disk is full or slow, the user stops it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "run.h"
#include "support/cgroup.h"
#include "support/features.h"

namespace brink::fault {
namespace {

bool Long() { return std::getenv("BRINK_LONG") != nullptr; }
std::vector<bool> Turns() { return Long() ? std::vector<bool>{false, true} : std::vector<bool>{true}; }
std::vector<std::string> Sources() { return Long() ? std::vector<std::string>{"none", "walk", "step", "hop"} : std::vector<std::string>{"walk", "step"}; }

// The scenario with the fault at evenly chosen calls of the bare run; every run must hold what RunWith says.
void AtStages(const Scenario& scenario, Fault fault, uint64_t stages, Tally* tally) {
  const Outcome bare = RunWith(scenario, {});
  ASSERT_EQ(bare.problem, "") << scenario.name << ": " << bare.process.err;
  const uint64_t calls = bare.calls[fault.kind];
  ASSERT_GT(calls, stages) << scenario.name;
  for (uint64_t i = 0; i < stages; ++i) {
    fault.nth = stages == 1 ? (calls + 1) / 2 : 1 + i * (calls - 1) / (stages - 1);
    const Outcome outcome = RunWith(scenario, fault);
    tally->Add(scenario, fault, outcome);
    EXPECT_EQ(outcome.problem, "") << scenario.name << ", " << KindName(fault.kind) << " at call " << fault.nth << ": status " << outcome.process.status << "\n"
                                   << outcome.process.err;
  }
}

const std::vector<std::string> kEndless = {"/bin/sh", "-c", "trap 'exec /bin/sh -c \"while :; do :; done\"' USR1; while :; do :; done"};

Scenario OfProcess(const std::string& source) {
  Scenario scenario = Recording("record -p, " + source, {"--source", source, "--duration", "150ms"}, {"-p", "%p"});
  scenario.target = kEndless;
  return scenario;
}

TEST(Stages, TheTargetEndsAtAnyOfThem) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("source.walk");
  Tally tally;
  for (const char* source : {"walk", "step", "none"}) AtStages(OfProcess(source), {.kind = kTarget, .error = SIGKILL}, Long() ? 60 : 1, &tally);
  std::printf("%s", tally.Table().c_str());
}

TEST(Stages, TheTargetBecomesAnotherProgramAtAnyOfThem) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("source.walk");
  Tally tally;
  for (const char* source : {"walk", "step", "none"}) AtStages(OfProcess(source), {.kind = kTarget, .error = SIGUSR1}, Long() ? 60 : 1, &tally);
  std::printf("%s", tally.Table().c_str());
}

// 200 moments with BRINK_LONG=1: no deadlock, whatever threads and locks were busy with.
TEST(Stages, TheUserStopsItAtAnyOfThem) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("source.walk");
  Tally tally;
  for (const Scenario& scenario : Scenarios()) AtStages(scenario, {.kind = kStop}, Long() ? 40 : 1, &tally);
  std::printf("%s", tally.Table().c_str());
}

// A tmpfs over a folder of the test.
class SmallDisk {
 public:
  explicit SmallDisk(int pages) {
    const std::string size = "size=" + std::to_string(pages * 4) + "k";
    mounted_ = mount("none", dir_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount(dir_.path().c_str());
  }
  bool mounted() const { return mounted_; }
  std::string File(const std::string& name) const { return dir_.File(name); }

 private:
  testing_support::TempDir dir_;
  bool mounted_ = false;
};

TEST(Stages, TheDiskIsFullAtAnyFlush) {
  SKIP_UNLESS("bpf.perf_event");
  Tally tally;
  for (const bool packed : {false, true}) {
    uint64_t pages = 1, step = Long() ? 1 : 13;
    for (bool enough = false; !enough && pages < 200; pages += step) {
      SmallDisk disk(static_cast<int>(pages));
      if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs";
      Scenario scenario = Recording("small disk", {"--source", "none", "-g", packed ? "-z" : "-q"}, ShortWork());
      scenario.data = disk.File("x.data");
      for (std::string& word : scenario.words) {
        if (word == "%/x.data") word = scenario.data;
      }
      Outcome outcome = RunWith(scenario, {});
      EXPECT_EQ(outcome.problem, "") << pages << " pages, packed " << packed << ": status " << outcome.process.status << "\n" << outcome.process.err;
      struct stat info = {};
      stat(scenario.data.c_str(), &info);
      enough = static_cast<uint64_t>(info.st_blocks) * 512 < (pages - 1) * 4096;
    }
    EXPECT_LT(pages, 200u) << "a disk that is large enough";
  }
}

TEST(Stages, ASlowDiskLosesNothingUncounted) {
  SKIP_UNLESS("bpf.perf_event");
  Tally tally;
  for (const char* source : {"none", "walk"}) {
    const Scenario scenario = Recording(source, {"--source", source}, ShortWork());
    const Outcome outcome = RunWith(scenario, {.kind = kSlow, .nth = 1, .error = 200, .always = true});
    EXPECT_GT(outcome.injected, 2u);
    EXPECT_EQ(outcome.problem, "") << outcome.process.err;
    // 3: more than the twentieth part was lost, which is for brink to say and for `problem` to check.
    EXPECT_TRUE(outcome.process.status == 0 || outcome.process.status == 3) << outcome.process.status << outcome.process.err;
  }
}

// Runs brink on an endless target while `hold` and `let_go` are called in turn; then the target must still run.
void WhileItStands(const std::string& source, bool from_the_start, const std::function<void(pid_t)>& hold, const std::function<void(pid_t)>& let_go) {
  testing_support::TempDir dir;
  const pid_t target = fork();
  if (target == 0) {
    execl("/bin/sh", "sh", "-c", "trap 'exit 7' USR1; while :; do :; done", static_cast<char*>(nullptr));
    _exit(127);
  }
  usleep(50'000);
  if (from_the_start) hold(target);
  const pid_t turns = fork();
  if (turns == 0) {
    for (bool held = from_the_start; true; held = !held) {
      usleep(70'000);
      held ? let_go(target) : hold(target);
    }
  }
  auto run = testing_support::RunBrink({"record", "-q", "--source", source, "-F", "500", "-o", dir.File("x.data"), "--json=" + dir.File("report.json"), "-p",
                                        std::to_string(target), "--duration", "600ms"});
  kill(turns, SIGKILL);
  waitpid(turns, nullptr, 0);
  hold(target);
  auto standing = testing_support::RunBrink({"record", "-q", "--source", source, "-F", "500", "-o", dir.File("y.data"), "-p", std::to_string(target), "--duration", "200ms"});
  let_go(target);
  EXPECT_TRUE(run.status == 0 || run.status == 3) << run.status << ' ' << source << ": " << run.err;
  EXPECT_FALSE(run.timed_out);
  EXPECT_TRUE(standing.status == 0 || standing.status == 3) << standing.status << ' ' << source << ", standing all the time: " << standing.err;
  EXPECT_EQ(JudgeRecording(dir.File("x.data"), dir.path()), "") << source;
  // It goes on as if nothing had been: it runs its own handler and ends with its own status.
  kill(target, SIGUSR1);
  int status = 0;
  for (int i = 0; i < 1000 && waitpid(target, &status, WNOHANG) == 0; ++i) {
    usleep(20'000);
    if (i == 999) kill(target, SIGKILL);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << source << ": " << status;
}

TEST(Standing, TargetThatIsStoppedBySignal) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("source.walk");
  for (const std::string& source : Sources()) {
    for (bool from_the_start : Turns()) {
      WhileItStands(source, from_the_start, [](pid_t pid) { kill(pid, SIGSTOP); }, [](pid_t pid) { kill(pid, SIGCONT); });
    }
  }
}

TEST(Standing, TargetThatIsFrozenByItsCgroup) {
  SKIP_UNLESS("bpf.perf_event");
  SKIP_UNLESS("source.walk");
  const std::string v2 = testing_support::CgroupV2Mount(), group = v2 + "/brink-fault-" + std::to_string(getpid());
  std::error_code error;
  if (!v2.empty()) std::filesystem::create_directory(group, error);
  if (v2.empty() || error || !std::filesystem::exists(group + "/cgroup.freeze")) GTEST_SKIP() << "needs a cgroup v2 hierarchy that may be written";
  auto freeze = [&](pid_t pid) {
    std::ofstream(group + "/cgroup.procs") << pid;
    std::ofstream(group + "/cgroup.freeze") << 1;
  };
  auto thaw = [&](pid_t) { std::ofstream(group + "/cgroup.freeze") << 0; };
  for (const std::string& source : Sources()) {
    for (bool from_the_start : Turns()) WhileItStands(source, from_the_start, freeze, thaw);
  }
  for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; ++i) usleep(20'000);
}

}  // namespace
}  // namespace brink::fault
