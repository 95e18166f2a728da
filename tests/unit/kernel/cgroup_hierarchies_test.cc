#include "kernel/cgroup_hierarchies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brink {
namespace {

constexpr char kHybridMounts[] =
    "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr char kHybridOwn[] = "4:perf_event:/group/a\n3:cpu,cpuacct:/\n0::/group\n";

TEST(CgroupHierarchies, HybridHasPerfEventOnV1) {
  CgroupHierarchies mounts = CgroupHierarchies::Parse(kHybridMounts, kHybridOwn);
  EXPECT_EQ(mounts.v2, "/sys/fs/cgroup/unified");
  EXPECT_EQ(mounts.own_v2_path, "/group");
  ASSERT_EQ(mounts.v1.size(), 2u);
  EXPECT_EQ(mounts.v1[0].controllers, "cpu,cpuacct");
  EXPECT_EQ(mounts.v1[0].own_path, "/");
  EXPECT_TRUE(mounts.perf_event_on_v1);
  EXPECT_EQ(mounts.PerfEventFolder(), "/sys/fs/cgroup/perf_event/group/a");
}

TEST(CgroupHierarchies, UnifiedHasItImplicitly) {
  CgroupHierarchies mounts = CgroupHierarchies::Parse("33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n");
  EXPECT_TRUE(mounts.v1.empty());
  EXPECT_EQ(mounts.PerfEventFolder(), "/sys/fs/cgroup/user.slice");
}

TEST(CgroupHierarchies, OutsideOfTheNamespaceMeansItsRoot) {
  CgroupHierarchies mounts = CgroupHierarchies::Parse("33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../other\n");
  EXPECT_EQ(mounts.PerfEventFolder(), "/sys/fs/cgroup");
}

TEST(CgroupHierarchies, NoneMounted) {
  CgroupHierarchies mounts = CgroupHierarchies::Parse("", "garbage\n0::/\n");
  EXPECT_EQ(mounts.v2, "");
  EXPECT_EQ(mounts.PerfEventFolder(), "");
}

}  // namespace
}  // namespace brink
