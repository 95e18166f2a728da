// Sampling one group does nothing to the others: counted by the kernel, program by program. No clock and no noise decides.
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "container/hierarchy.h"
#include "group_support.h"
#include "snap_support.h"
#include "support/background.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

constexpr uint64_t kWorkNs = 400'000'000;

std::optional<uint64_t> RunsOfSamplers(pid_t pid) { return RunsOf(pid, BPF_PROG_TYPE_PERF_EVENT); }

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

class SnapOthers : public GroupsTest {
 protected:
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

// Probes are set in the processes of the group and follow those that come into it, by a move or by a fork.
TEST_F(SnapOthers, AProbeOfAGroupIsMetByItsProcessesOnly) {
  SKIP_UNLESS("bpf.uprobe_multi_process");
  testing_support::Background brink({"snap", "--on", "uprobe:" + Self() + ":SnapOthersCalled", "--source", "none", "--if", "pid == 1", "--cgroup", groups_[0]}, "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  Calling moving(groups_[1], Calling::How::kSelf);
  moving.Wait(200);
  EXPECT_EQ(RunsOfProbes(brink.pid()), 0u);
  {
    Calling in(groups_[0], Calling::How::kSelf);
    EXPECT_TRUE(IsMet(brink.pid(), in)) << brink.text();
  }
  const uint64_t before = RunsOfProbes(brink.pid());
  moving.Wait(200);
  EXPECT_EQ(RunsOfProbes(brink.pid()), before);
  moving.Enter(groups_[0]);
  EXPECT_TRUE(IsMet(brink.pid(), moving)) << brink.text();
  moving.Enter(groups_[1]);
  for (int i = 0; i < 50; ++i) {  // the next look takes the probe away
    const uint64_t now = RunsOfProbes(brink.pid());
    moving.Wait(100);
    if (RunsOfProbes(brink.pid()) == now) break;
  }
  const uint64_t gone = RunsOfProbes(brink.pid());
  moving.Wait(200);
  EXPECT_EQ(RunsOfProbes(brink.pid()), gone);
  Calling forking(groups_[0], Calling::How::kChildren);
  EXPECT_TRUE(IsMet(brink.pid(), forking)) << brink.text();
  EXPECT_EQ(brink.Stop(SIGINT).status, 0);
}

TEST_F(SnapOthers, ARecordingOfAGroupRunsForNobodyElse) {
  testing_support::TempDir dir;
  testing_support::Background brink({"record", "--source", "none", "-F", "499", "-g", "-G", groups_[0], "-o", dir.path() + "/data"}, "");
  OnlyTheWantedAreSampled(brink.pid());
  brink.Stop(SIGINT);
}

}  // namespace
}  // namespace brink::snap_tests
