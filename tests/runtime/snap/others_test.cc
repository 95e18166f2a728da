// Sampling one group does nothing to the others: counted by the kernel, program by program. No clock and no noise decides.
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "container/hierarchy.h"
#include "kernel/cgroup_hierarchies.h"
#include "snap_support.h"
#include "support/background.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

constexpr uint64_t kWorkNs = 400'000'000;

// How often the sampling programs of `pid` have run (/proc/PID/fdinfo; only while the kernel counts). Nothing: it has none.
std::optional<uint64_t> RunsOfSamplers(pid_t pid) {
  std::optional<uint64_t> sum;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fdinfo")) {
    std::ifstream file(entry.path());
    uint64_t type = 0, value = 0;
    for (std::string name; file >> name;) {
      if (name == "prog_type:") file >> type;
      if (name == "run_cnt:" && file >> value && type == BPF_PROG_TYPE_PERF_EVENT) sum = sum.value_or(0) + value;
    }
  }
  return sum;
}

// A process that computes, in a group.
class Computing {
 public:
  explicit Computing(const std::string& group) : pid_(fork()) {
    if (pid_ == 0) {
      volatile unsigned i = 0;
      while (true) i = i + 1;
    }
    Enter(group);
  }
  ~Computing() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Enter(const std::string& group) const { std::ofstream(group + "/cgroup.procs") << pid_; }
  // Until it has computed for so long.
  void Work() const {
    const uint64_t end = CpuNs() + kWorkNs;
    while (CpuNs() < end) usleep(10'000);
  }

 private:
  uint64_t CpuNs() const {
    clockid_t clock;
    timespec now = {};
    if (clock_getcpuclockid(pid_, &clock) == 0) clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }
  pid_t pid_;
};

class SnapOthers : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("cgroup.events");
    const std::string own = CgroupHierarchies::Read().PerfEventFolder();
    for (const char* name : {"wanted", "other"}) {
      groups_.push_back(own + "/brink_others_" + name + "_" + std::to_string(getpid()));
      ASSERT_EQ(mkdir(groups_.back().c_str(), 0755), 0) << groups_.back();
    }
    bpf_attr attr = {};
    attr.enable_stats.type = BPF_STATS_RUN_TIME;
    stats_ = static_cast<int>(syscall(SYS_bpf, BPF_ENABLE_STATS, &attr, sizeof(attr)));
    ASSERT_GE(stats_, 0);
  }
  void TearDown() override {
    if (stats_ >= 0) close(stats_);
    for (const std::string& group : groups_) rmdir(group.c_str());
  }

  // Many runs beside one who is meant, which shows that they are seen, and then not one beside the others.
  void OnlyTheWantedAreSampled(pid_t brink) {
    Computing work(groups_[0]);
    for (int i = 0; i < 50 && RunsOfSamplers(brink).value_or(0) <= 20; ++i) work.Work();
    ASSERT_GT(RunsOfSamplers(brink).value_or(0), 20u);
    work.Enter(groups_[1]);
    const auto before = RunsOfSamplers(brink);
    work.Work();
    EXPECT_EQ(RunsOfSamplers(brink), before);
  }

  std::vector<std::string> groups_;  // wanted, other
  int stats_ = -1;
};

TEST_F(SnapOthers, ASampleTriggerOfAGroupRunsForNobodyElse) {
  testing_support::Background brink({"snap", "--on", "sample:499", "--source", "none", "--if", "pid == 1", "--cgroup", groups_[0]}, "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  OnlyTheWantedAreSampled(brink.pid());
  EXPECT_EQ(brink.Stop(SIGINT).status, 0);
}

// A group that comes later: its events come with it. By its name where containers are told apart by the hierarchy that has perf events.
TEST_F(SnapOthers, AGroupThatComesLaterIsSampledFromThenOn) {
  const std::string name = "later" + std::to_string(getpid()) + ".service", later = groups_[0] + "/" + name;
  std::vector<std::string> args = {"snap", "--on", "sample:499", "--source", "none", "--if", "pid == 1"};
  if (ChooseHierarchy().v2()) args.insert(args.end(), {"--container", name});
  else args.insert(args.end(), {"--cgroup", groups_[0]});
  testing_support::Background brink(args, "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  ASSERT_EQ(mkdir(later.c_str(), 0755), 0);
  {
    Computing work(later);
    for (int i = 0; i < 50 && RunsOfSamplers(brink.pid()).value_or(0) <= 20; ++i) work.Work();
    EXPECT_GT(RunsOfSamplers(brink.pid()).value_or(0), 20u) << brink.text();
  }
  brink.Stop(SIGINT);
  rmdir(later.c_str());
}

TEST_F(SnapOthers, ARecordingOfAGroupRunsForNobodyElse) {
  testing_support::TempDir dir;
  testing_support::Background brink({"record", "--source", "none", "-F", "499", "-g", "-G", groups_[0], "-o", dir.path() + "/data"}, "");
  OnlyTheWantedAreSampled(brink.pid());
  brink.Stop(SIGINT);
}

}  // namespace
}  // namespace brink::snap_tests
