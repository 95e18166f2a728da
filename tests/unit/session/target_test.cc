#include "session/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "session/run_cgroup.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing_support::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(ResolveTarget, WantsExactlyOneTarget) {
  EXPECT_THAT(ResolveTarget({.all_cpus = true, .pids = {1}}, {0}), StatusIs(kInvalid, HasSubstr("choose one")));
  EXPECT_THAT(ResolveTarget({}, {0}), StatusIs(kInvalid, HasSubstr("nothing to record")));
}

TEST(ResolveTarget, ACommandIsTheTargetUnlessThereIsAnother) {
  EXPECT_EQ(ResolveTarget({.command = {"ls"}}, {0})->kind, TargetKind::kCommand);
  EXPECT_EQ(ResolveTarget({.all_cpus = true, .command = {"ls"}}, {0})->kind, TargetKind::kAllCpus);
}

TEST(ResolveTarget, RefusesDeadProcessesAndThreadsInPlaceOfProcesses) {
  EXPECT_THAT(ResolveTarget({.pids = {0x3ffffff}}, {0}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such process")));
  EXPECT_THAT(ResolveTarget({.tids = {0x3ffffff}}, {0}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such thread")));
}

TEST(ResolveTarget, RefusesACpuThatIsOffline) {
  EXPECT_THAT(ResolveTarget({.all_cpus = true, .cpus = {0, 9}}, {0, 1}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("CPU 9 is not online")));
}

TEST(ResolveTarget, KeepsTheStartOfAProcess) {
  auto target = ResolveTarget({.pids = {getpid()}}, {0});
  ASSERT_TRUE(target.ok());
  ASSERT_EQ(target->tasks.size(), 1u);
  EXPECT_GT(target->tasks[0].start_ticks, 0u);
  EXPECT_EQ(target->processes, std::vector<pid_t>{getpid()});
}

TEST(SessionMounts, TellsTheHierarchiesApart) {
  SessionMounts hybrid = ParseCgroupMounts(
      "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
      "cgroup /sys/fs/cgroup/perf cgroup rw,relatime,perf_event 0 0\n");
  EXPECT_EQ(hybrid.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(hybrid.perf_event, "/sys/fs/cgroup/perf");
  EXPECT_EQ(ParseCgroupMounts("proc /proc proc rw 0 0\n").v2, "");
  EXPECT_EQ(ParseV2Path("5:cpu:/a\n0::/user.slice/x\n"), "/user.slice/x");
  EXPECT_EQ(ParseV2Path("5:cpu:/a\n"), "");
}

TEST(RunCgroup, IsNotMadeWhereEventsCouldNotUseIt) {
  EXPECT_FALSE(RunCgroup::Make({}).ok());
  EXPECT_FALSE(RunCgroup::Make({.v2 = "/sys/fs/cgroup", .perf_event = "/sys/fs/cgroup/perf_event"}).ok());
}

}  // namespace
}  // namespace brink
