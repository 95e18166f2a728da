// Nothing is left behind: after the end, a Ctrl-C, a kill -9; judged by brink's own program names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "snap_support.h"
#include "support/background.h"
#include "support/bpf_left.h"
#include "support/features.h"

namespace brink::snap_tests {
namespace {

using namespace std::chrono_literals;

// brink snap in the background, armed.
class Snapping : public testing_support::Background {
 public:
  explicit Snapping(std::vector<std::string> args) : Background(Command(std::move(args)), "armed, Ctrl-C") {}

 private:
  static std::vector<std::string> Command(std::vector<std::string> args) {
    args.insert(args.begin(), "snap");
    return args;
  }
};

TEST(SnapLeaves, NothingAfterAnOrderlyEnd) {
  SKIP_UNLESS("bpf.uprobe");
  Snapping snap({"--on", "uprobe:" + Self() + ":snap_work", "--on", "exec", "--history", "--", Self(), "--target", "wait"});
  ASSERT_TRUE(snap.ready()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_GE(programs.size(), 6u);
  snap.Stop(SIGINT);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST(SnapLeaves, NothingAfterKillWhileTheCommandLivesOn) {
  SKIP_UNLESS("bpf.uprobe");
  Snapping snap({"--on", "uprobe:" + Self() + ":snap_work", "--on", "syscall:lseek", "--", Self(), "--target", "spin"});
  ASSERT_TRUE(snap.ready()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_FALSE(programs.empty());
  snap.Stop(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

TEST(SnapLeaves, AMomentThatNoTriggerWaitsForEndsNothing) {
  SKIP_UNLESS("bpf.raw_tp");
  Snapping snap({"--on", "syscall:lseek", "--if", "pid == 1", "--", Self(), "--target", "wait"});
  ASSERT_TRUE(snap.ready()) << snap.text();
  kill(snap.pid(), SIGUSR1);
  // Signals of different numbers come in their order: this one finds the other answered.
  const auto end = snap.Stop(SIGINT);
  EXPECT_NE(end.status, 125) << snap.text();
  EXPECT_THAT(snap.text(), testing::Not(testing::HasSubstr("no manual trigger")));
}

TEST(SnapLeaves, NothingAfterKillWhileAHelperLives) {
  SKIP_UNLESS("source.step");
  Snapping snap({"--trace-between", Self() + ":snap_decide", "--source", "step", "--", Self(), "--target", "decide"});
  ASSERT_TRUE(snap.ready()) << snap.text();
  const auto programs = testing_support::ProgramsHeldBy(snap.pid());
  EXPECT_FALSE(programs.empty());
  snap.Stop(SIGKILL);
  EXPECT_TRUE(testing_support::UnloadedWithin(programs, 20s));
}

}  // namespace
}  // namespace brink::snap_tests
