// Many uprobes at once: they go with the process, at once where the kernel has the multi form (here, 6.12), and few enough
// where it has not (6.1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "snap_support.h"
#include "support/background.h"
#include "support/bpf_left.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class SnapUprobes : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("bpf.uprobe");
    // What else runs on the machine must not decide how long an end takes. Inherited by what is started.
    (void)setpriority(PRIO_PROCESS, 0, -20);
  }
};

TEST_F(SnapUprobes, AThousandGoAtOnce) {
  SKIP_UNLESS("bpf.uprobe_multi");
  // The C library exports some thousand functions beginning with these letters.
  testing_support::Background snap({"snap", "--on", "uprobe:libc:[a-r]*", "--if", "pid == 1", "-p", std::to_string(getpid())}, "armed, Ctrl-C");
  ASSERT_TRUE(snap.ready()) << snap.text();
  const size_t places = snap.text().find("uprobe_multi at ");
  ASSERT_NE(places, std::string::npos) << snap.text();
  const int count = std::stoi(snap.text().substr(places + 16));
  EXPECT_GE(count, 1000);
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  const auto end = snap.Stop(SIGINT);
  std::printf("| %d uprobes: Ctrl-C to the end %lld ms\n", count, static_cast<long long>(end.took.count()));
  EXPECT_EQ(end.status, 0);
  // One by one they would take more than a minute. The bar of one second is judged by tests/bench/snap_cost/leave.py: the
  // time is the kernel's waiting for all CPUs, which a hypervisor stretches.
  EXPECT_LE(end.took, 10s);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST_F(SnapUprobes, AThousandGoWithAKill) {
  SKIP_UNLESS("bpf.uprobe_multi");
  testing_support::Background snap({"snap", "--on", "uprobe:libc:[a-r]*", "--if", "pid == 1", "-p", std::to_string(getpid())}, "armed, Ctrl-C");
  ASSERT_TRUE(snap.ready()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_FALSE(programs.empty());
  snap.Stop(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST_F(SnapUprobes, WithoutTheMultiFormThereAreFewAndTheTimeIsSaid) {
  if (testing_support::HasFeature("bpf.uprobe_multi")) GTEST_SKIP() << "this kernel has uprobe_multi";
  auto many = testing_support::RunBrink({"snap", "--on", "uprobe:libc:[a-r]*", "-p", std::to_string(getpid())});
  EXPECT_EQ(many.status, 1);
  EXPECT_THAT(many.err, HasSubstr("at most 64 single uprobes"));
  testing_support::Background few({"snap", "--on", "uprobe:" + Self() + ":snap_*", "--if", "pid == 1"}, "armed, Ctrl-C");
  ASSERT_TRUE(few.ready()) << few.text();
  EXPECT_THAT(few.text(), HasSubstr("s to detach"));
  const auto programs = testing_support::ProgramsHeldBy(few.pid());
  const auto end = few.Stop(SIGINT);
  std::printf("| single uprobes: Ctrl-C to the end %lld ms\n", static_cast<long long>(end.took.count()));
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

}  // namespace
}  // namespace brink::snap_tests
