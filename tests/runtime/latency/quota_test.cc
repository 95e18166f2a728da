// A CPU quota that is used up: cpu.cfs_quota_us where the cpu controller is on v1, cpu.max where it is on v2 (the guests).
#include "runtime/latency/blame_fixture.h"
#include "runtime/latency/group.h"

namespace brink::latency {
namespace {

bool SetQuota(const Group& group, bool limited) {
  // An emulated CPU does little in a millisecond, and what the host takes counts as used: the larger part of each period,
  // of which the rest is still a stall that cannot be missed.
  if (group.v2()) return group.Set("cpu.max", limited ? "60000 100000" : "max 100000");
  return group.Set("cpu.cfs_period_us", "100000") && group.Set("cpu.cfs_quota_us", limited ? "5000" : "-1");
}

TEST_F(Blame, ACpuQuotaIsSeen) {
  // Emulated branch hardware makes each switch dear: more of the group's time would go into those than into the stall.
  if (::getenv("BRINK_VM_HOST") && testing_support::HasFeature("branch.snapshot")) GTEST_SKIP() << "judged in the guest without branch hardware";
  Group group("cpu");
  if (!group.ok()) GTEST_SKIP() << "needs the cpu controller";
  // Other load must not keep the group from its quota.
  group.Set(group.v2() ? "cpu.weight" : "cpu.shares", group.v2() ? "10000" : "262144");
  Injection injection{.kind = "quota", .more = {group.path() + "/cpu.stat"}};
  injection.join = injection.injector_join = [&] { group.Join(); };
  // Not while programs are loaded: that takes more than the quota has.
  injection.measuring = [&] { ASSERT_TRUE(SetQuota(group, true)); };
  // Nor when it writes what it saw.
  injection.injected = [&] { ASSERT_TRUE(SetQuota(group, false)); };
  Expect(
      [&] {
        ASSERT_TRUE(SetQuota(group, false));
        Measure(injection);
      },
      [&](const SpikeReport& s) { return s.cause == Cause::kQuota; });
  std::printf("| CPU quota of %s: %d of %d right |\n", group.v2() ? "v2" : "v1", right_, judged_);
}

}  // namespace
}  // namespace brink::latency
