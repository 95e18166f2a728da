// Probes that are set in each process of a group: who meets them, what they cost brink, and that they go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "group_support.h"
#include "snap_support.h"
#include "support/background.h"
#include "support/bpf_left.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

size_t DescriptorsOf(pid_t pid) {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", error), end; !error && it != end; it.increment(error)) ++count;
  return count;
}

// A process in a group with children that do nothing. They end with it.
class Crowd {
 public:
  Crowd(const std::string& group, int children) {
    int ready[2], go[2];
    if (pipe(ready) != 0 || pipe(go) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      char byte;
      if (read(go[0], &byte, 1) != 1) _exit(1);
      const pid_t parent = getpid();
      for (int i = 0; i < children; ++i) {
        if (fork() == 0) {
          prctl(PR_SET_PDEATHSIG, SIGKILL);
          if (getppid() != parent) _exit(0);  // it had been killed before
          while (true) pause();
        }
      }
      if (write(ready[1], "r", 1) != 1) _exit(1);
      while (true) pause();
    }
    std::ofstream(group + "/cgroup.procs") << pid_;
    char byte;
    if (write(go[1], "g", 1) != 1 || read(ready[0], &byte, 1) != 1) std::abort();
    for (int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
  }
  ~Crowd() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  pid_t pid_;
};

class SnapMembers : public GroupsTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.uprobe_multi_process");
    GroupsTest::SetUp();
  }
  // Probes of the wanted group at `function`. No hit becomes a capture: only runs are counted.
  std::vector<std::string> Args(const std::string& function) const {
    return {"snap", "--on", "uprobe:" + Self() + ":" + function, "--source", "none", "--if", "pid == 1", "--cgroup", groups_[0]};
  }
  // The target, in the wanted group before brink is armed, executes a program of many calls when it is told to.
  void AProgramIsMetThatIsExecutedBy(const std::string& mode) {
    int input[2];
    ASSERT_EQ(pipe(input), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(input[0], 0);
      execl(Self().c_str(), Self().c_str(), "--target", mode.c_str(), nullptr);
      _exit(127);
    }
    std::ofstream(groups_[0] + "/cgroup.procs") << pid;
    {
      testing_support::Background brink(Args("snap_work"), "armed, Ctrl-C");
      EXPECT_TRUE(brink.ready()) << brink.text();
      EXPECT_EQ(RunsOfProbes(brink.pid()), 0u);
      EXPECT_EQ(write(input[1], "g", 1), 1);
      for (int i = 0; i < 3000 && RunsOfProbes(brink.pid()) <= 20; ++i) usleep(10'000);
      EXPECT_GT(RunsOfProbes(brink.pid()), 20u);
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(input[0]);
    close(input[1]);
  }
};

TEST_F(SnapMembers, AProgramThatOneExecutesIsMet) { AProgramIsMetThatIsExecutedBy("exec-works-on"); }

// The thread takes its leader's place: for the kernel's links the process that they were set for is gone.
TEST_F(SnapMembers, AProgramThatAThreadOfOneExecutesIsMet) { AProgramIsMetThatIsExecutedBy("thread-exec-works-on"); }

// As many calls as a process is allowed, in its own time.
struct Board {
  std::atomic<uint64_t> calls;
  std::atomic<int> allowed[2];
};

[[noreturn]] void Serve(Board* board, int who) {
  while (true) {
    if (board->allowed[who] > 0) {
      SnapOthersCalled(&board->calls);
      --board->allowed[who];
    } else {
      usleep(500);
    }
  }
}

int ServeAsChild(void* board) { Serve(static_cast<Board*>(board), 1); }

// Between vfork and exec, and with clone(CLONE_VM): a link in each of the two, and each call is met once.
TEST_F(SnapMembers, TwoThatShareTheirMemoryAreMetOnceACall) {
  auto* board = static_cast<Board*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  const pid_t parent = fork();
  if (parent == 0) {
    while (board->allowed[0] == 0) usleep(500);  // in its group from here on
    static char stack[64 * 1024] __attribute__((aligned(16)));
    const pid_t child = clone(ServeAsChild, stack + sizeof(stack), CLONE_VM | SIGCHLD, board);
    if (child < 0) _exit(1);
    Serve(board, 0);
  }
  std::ofstream(groups_[0] + "/cgroup.procs") << parent;
  auto runs_of = [&](int first, int second) {
    const uint64_t before = RunsOfProbes(brink.pid());
    board->allowed[0] += first;
    board->allowed[1] += second;
    while (board->allowed[0] > 0 || board->allowed[1] > 0) usleep(1000);
    return RunsOfProbes(brink.pid()) - before;
  };
  runs_of(1, 0);
  for (int i = 0; i < 1000 && (runs_of(1, 0) < 1 || runs_of(0, 1) < 1); ++i) usleep(10'000);
  EXPECT_EQ(runs_of(100, 0), 100u);
  EXPECT_EQ(runs_of(0, 100), 100u);
  EXPECT_EQ(runs_of(100, 100), 200u);
  brink.Stop(SIGINT);
  for (const std::string& group : groups_) {
    std::ifstream members(group + "/cgroup.procs");
    for (pid_t pid; members >> pid;) kill(pid, SIGKILL);  // the two of this test
  }
  waitpid(parent, nullptr, 0);
  munmap(board, 4096);
}

TEST_F(SnapMembers, AThreadThatIsNotTheLeaderIsMet) {
  Calling in(groups_[0], Calling::How::kThread);
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  EXPECT_TRUE(IsMet(brink.pid(), in));
}

// As service managers and runtimes do it: no move is told of, and its parent is no member.
TEST_F(SnapMembers, OneThatIsClonedIntoTheGroupIsMet) {
  struct statfs kind = {};
  ASSERT_EQ(statfs(groups_[0].c_str(), &kind), 0);
  if (kind.f_type != CGROUP2_SUPER_MAGIC) GTEST_SKIP() << "needs cgroup v2";
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  Calling cloned(groups_[1], Calling::How::kClonedInto, groups_[0]);
  EXPECT_TRUE(IsMet(brink.pid(), cloned)) << brink.text();
}

// A group's folder with a slash at its end, as completion writes it: a process that is moved within it stays.
TEST_F(SnapMembers, AMoveWithinTheGroupTakesNothingAway) {
  const std::string below = groups_[0] + "/below";
  ASSERT_EQ(mkdir(below.c_str(), 0755), 0);
  {
    Calling in(groups_[0], Calling::How::kSelf);
    auto args = Args("SnapOthersCalled");
    args.back() += "/";
    testing_support::Background brink(args, "armed, Ctrl-C");
    ASSERT_TRUE(brink.ready()) << brink.text();
    EXPECT_TRUE(IsMet(brink.pid(), in));
    in.Enter(below);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(IsMet(brink.pid(), in));
    brink.Stop(SIGINT);
  }
  for (int i = 0; i < 500 && rmdir(below.c_str()) != 0 && errno == EBUSY; ++i) usleep(10'000);
}

// Others that are moved to and fro are told of at each time; the look of each second comes all the same, and takes the ended away.
TEST_F(SnapMembers, WhatEndsIsForgottenWhileOthersMove) {
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  const size_t before = DescriptorsOf(brink.pid());
  const Calling moving(groups_[1], Calling::How::kSelf);
  const std::string aside = groups_[1] + "/aside";
  ASSERT_EQ(mkdir(aside.c_str(), 0755), 0);
  {
    Crowd crowd(groups_[0], 20);
    for (int i = 0; i < 300 && DescriptorsOf(brink.pid()) < before + 21; ++i) {
      moving.Enter(i % 2 ? groups_[1] : aside);
      usleep(50'000);
    }
    EXPECT_GE(DescriptorsOf(brink.pid()), before + 21);
  }
  for (int i = 0; i < 300 && DescriptorsOf(brink.pid()) > before + 2; ++i) {
    moving.Enter(i % 2 ? groups_[1] : aside);
    usleep(50'000);
  }
  EXPECT_LE(DescriptorsOf(brink.pid()), before + 2);
  brink.Stop(SIGINT);
  moving.Enter(groups_[1]);
  for (int i = 0; i < 500 && rmdir(aside.c_str()) != 0 && errno == EBUSY; ++i) usleep(10'000);
}

TEST_F(SnapMembers, AKillLeavesNothing) {
  Crowd crowd(groups_[0], 60);
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  EXPECT_THAT(brink.text(), HasSubstr("in each process of the groups"));
  const size_t descriptors = DescriptorsOf(brink.pid());
  EXPECT_GE(descriptors, 61u);
  EXPECT_LT(descriptors, 300u);
  const auto programs = testing_support::ProgramsHeldBy(brink.pid());
  EXPECT_FALSE(programs.empty());
  const auto end = brink.Stop(SIGKILL);
  std::printf("| 61 processes with a probe each: gone %lld ms after the kill\n", static_cast<long long>(end.took.count()));
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST_F(SnapMembers, AnOrderlyEndTakesThemAwayTogether) {
  Crowd crowd(groups_[0], 60);
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  const auto end = brink.Stop(SIGINT);
  std::printf("| 61 processes with a probe each: Ctrl-C to the end %lld ms\n", static_cast<long long>(end.took.count()));
  EXPECT_EQ(end.status, 0);
}

// More than that are not probed one by one: it would take descriptors and time without end.
TEST_F(SnapMembers, OfAThousandNoneIsProbedByItself) {
  Crowd crowd(groups_[0], 1000);
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  EXPECT_THAT(brink.text(), HasSubstr("more than 64 processes in the groups: whoever runs"));
  EXPECT_LT(DescriptorsOf(brink.pid()), 200u);
  Calling in(groups_[0], Calling::How::kSelf);
  EXPECT_TRUE(IsMet(brink.pid(), in)) << brink.text();
  const auto end = brink.Stop(SIGINT);
  std::printf("| 1,001 processes: Ctrl-C to the end %lld ms\n", static_cast<long long>(end.took.count()));
  EXPECT_EQ(end.status, 0);
}

// The group grows while brink is armed.
TEST_F(SnapMembers, WhenTheyBecomeTooManyEverybodyIsProbed) {
  Calling in(groups_[0], Calling::How::kSelf), other(groups_[1], Calling::How::kSelf);
  testing_support::Background brink(Args("SnapOthersCalled"), "armed, Ctrl-C");
  ASSERT_TRUE(brink.ready()) << brink.text();
  EXPECT_TRUE(IsMet(brink.pid(), in));
  Crowd crowd(groups_[0], 100);
  // More runs than the one has called.
  bool both = false;
  for (int i = 0; i < 100 && !both; ++i) {
    const uint64_t runs = RunsOfProbes(brink.pid()), calls = in.calls();
    in.Wait(100);
    both = RunsOfProbes(brink.pid()) - runs > in.calls() - calls + 50;
  }
  EXPECT_TRUE(both);
  EXPECT_LT(DescriptorsOf(brink.pid()), 200u);
  EXPECT_EQ(brink.Stop(SIGINT).status, 0);
}

// Programs that are over before a probe could be set in them.
TEST_F(SnapMembers, WithProbesForEverybodyTheFirstInstructionIsMet) {
  auto args = Args("snap_work");
  args.insert(args.end(), {"--probe-all", "--", "sh", "-c", "echo $$ > " + groups_[0] + "/cgroup.procs; for i in 1 2 3 4 5; do " + Self() + " --target works; done"});
  for (std::string& word : args) {
    if (word == "pid == 1") word = "pid != 1";
  }
  args.insert(args.begin() + 1, "--json");
  const auto result = testing_support::RunBrink(args);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 40);
  EXPECT_THAT(result.err, HasSubstr("dropped: --probe-all"));
  EXPECT_THAT(result.err, Not(HasSubstr("in each process of the groups")));
}

TEST_F(SnapMembers, ProbesForEverybodyGoWithAGroup) {
  const auto result = testing_support::RunBrink({"snap", "--on", "uprobe:" + Self() + ":snap_work", "--probe-all"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--probe-all goes with --container, --pod or --cgroup"));
}

}  // namespace
}  // namespace brink::snap_tests
