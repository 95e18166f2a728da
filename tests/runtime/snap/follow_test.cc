// --source walk: what follows a capture, where no hardware says what led to it. Single steps say what is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "snap_support.h"
#include "support/features.h"
#include "support/process.h"

namespace brink::snap_tests {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// A branch by names: programs are loaded elsewhere each time.
using Step = std::pair<std::string, std::string>;

std::string Place(const nlohmann::json& address) {
  const auto& offset = address["offset"];
  return (address["symbol"].is_string() ? address["symbol"].get<std::string>() : "?") + "+" + std::to_string(offset.is_number() ? offset.get<int64_t>() : -1);
}

// In the order of execution.
std::vector<Step> StepsOf(const nlohmann::json& capture) {
  std::vector<Step> steps;
  for (const auto& branch : capture["branches"]) steps.emplace_back(Place(branch["from"]), Place(branch["to"]));
  if (capture["schema"] == "brink.snap.v1") std::reverse(steps.begin(), steps.end());
  return steps;
}

std::vector<Step> Truth() {
  const Snapped stepped = Snap({"--trace-between", Self() + ":snap_decide", "--source", "step", "--count", "1"}, "decide");
  EXPECT_EQ(stepped.captures.size(), 1u) << stepped.process.err;
  return stepped.captures.empty() ? std::vector<Step>{} : StepsOf(stepped.captures[0]);
}

size_t Walked(const Snapped& snapped) {
  size_t walked = 0;
  for (const auto& capture : snapped.captures) walked += !capture["branches"].empty();
  return walked;
}

class SnapFollow : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    if (testing_support::RunBrink({"snap", "--on", "syscall:getppid", "--source", "walk", "--", "/bin/true"}).err.find("needs task work") != std::string::npos) {
      GTEST_SKIP() << "task work for BPF programs is of Linux 6.18";
    }
  }
};

// Where no hardware says what led there. Labelled, and not where a walk would cost several times what the hit does.
TEST_F(SnapFollow, IsTheDefaultAtUserProbesOfACommandWithoutHardware) {
  SKIP_UNLESS("bpf.uprobe");
  if (testing_support::HasFeature("branch.snapshot")) GTEST_SKIP() << "branch.snapshot: the hardware's are the default here";
  const Snapped probed = Snap({"--on", "uprobe:" + Self() + ":snap_decide", "--count", "20"}, "decide");
  ASSERT_FALSE(probed.captures.empty()) << probed.process.err;
  EXPECT_THAT(probed.process.err, HasSubstr("the branches are those that follow a hit"));
  for (const auto& capture : probed.captures) EXPECT_EQ(capture["direction"], "future");
  EXPECT_GE(Walked(probed), 1u) << probed.process.err;
  const Snapped call = Snap({"--on", "syscall:openat", "--count", "1"}, "decide");
  ASSERT_FALSE(call.captures.empty()) << call.process.err;
  EXPECT_EQ(call.captures[0]["direction"], "past");
  EXPECT_THAT(call.captures[0]["no_branches"].get<std::string>(), HasSubstr("--source walk shows what follows"));
}

TEST_F(SnapFollow, FromAUprobeEachBranchIsTheOneThatStepSees) {
  SKIP_UNLESS("bpf.uprobe");
  SKIP_UNLESS("source.step");
  const std::vector<Step> truth = Truth();
  ASSERT_GT(truth.size(), 4u);
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_decide", "--source", "walk"}, "decide");
  ASSERT_EQ(snapped.captures.size(), 400u) << snapped.process.err;
  size_t whole = 0;
  for (const auto& capture : snapped.captures) {
    EXPECT_EQ(capture["direction"], "future");
    const std::vector<Step> steps = StepsOf(capture);
    EXPECT_EQ(steps.empty(), capture["no_branches"].is_string());
    const size_t both = std::min(steps.size(), truth.size());
    EXPECT_TRUE(std::equal(steps.begin(), steps.begin() + static_cast<ptrdiff_t>(both), truth.begin())) << capture.dump();
    whole += both == truth.size();
  }
  std::printf("| %zu of 400 whole; the first capture has %zu branches\n", whole, snapped.captures[0]["branches"].size());
  // How many depends on what else the machine does.
  EXPECT_GE(whole, 1u) << snapped.process.err;
}

// The program stands on a breakpoint of the probe each time that it comes by: the walk must not stop there.
TEST_F(SnapFollow, ProbedInstructionsOnTheWayAreWalkedThrough) {
  SKIP_UNLESS("bpf.uprobe");
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_multi_*", "--source", "walk"}, "globs");
  ASSERT_EQ(snapped.captures.size(), 4u) << snapped.process.err;
  size_t calls = 0;
  for (const auto& capture : snapped.captures) {
    for (const auto& branch : capture["branches"]) calls += branch["to"]["symbol"].is_string() && branch["to"]["symbol"].get<std::string>().starts_with("snap_multi_") && branch["kind"] == "call";
  }
  if (Walked(snapped) == 0) GTEST_SKIP() << "no walk came through on this machine: " << snapped.process.err;
  EXPECT_GE(calls, 1u) << snapped.process.err;
}

struct Begin {
  const char *feature, *on, *mode;
};
void PrintTo(const Begin& begin, std::ostream* out) { *out << begin.on; }

class SnapFollowKinds : public SnapFollow, public testing::WithParamInterface<Begin> {};

TEST_P(SnapFollowKinds, SomeCapturesHaveWhatFollowsAndTheOthersSayWhyNot) {
  const Begin& begin = GetParam();
  SKIP_UNLESS(begin.feature);
  std::string on = begin.on;
  if (const size_t at = on.find("SELF"); at != std::string::npos) on.replace(at, 4, Self());
  Snapped snapped = Snap({"--on", on, "--source", "walk", "--count", "50"}, begin.mode);
  std::printf("| %s: %zu of %zu captures with branches\n", begin.on, Walked(snapped), snapped.captures.size());
  ASSERT_FALSE(snapped.captures.empty()) << snapped.process.err;
  EXPECT_GE(Walked(snapped), 1u) << snapped.process.err;
  for (const auto& capture : snapped.captures) EXPECT_EQ(capture["branches"].empty(), capture["no_branches"].is_string()) << capture.dump();
}

INSTANTIATE_TEST_SUITE_P(All, SnapFollowKinds,
                         testing::Values(Begin{"bpf.uretprobe", "uretprobe:SELF:snap_decide", "decide"}, Begin{"bpf.raw_tp", "syscall:clock_nanosleep", "decide"},
                                         Begin{"bpf.tracepoint", "tracepoint:syscalls:sys_exit_clock_nanosleep", "decide"}, Begin{"bpf.perf_event", "sample:499", "spin"}));

// Two triggers, and both probes in one page.
TEST_F(SnapFollow, ProbesOfAllTriggersAreSeenThrough) {
  SKIP_UNLESS("bpf.uprobe");
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_multi_a", "--on", "uprobe:" + Self() + ":snap_multi_b", "--source", "walk"}, "globs");
  ASSERT_EQ(snapped.captures.size(), 3u) << snapped.process.err;
  for (const auto& capture : snapped.captures) {
    EXPECT_THAT(capture.value("stop", "") + (capture["branches"].empty() ? " empty" : ""), testing::Not(testing::AnyOf(HasSubstr("unsupported empty"), HasSubstr("miss empty")))) << capture.dump();
  }
}

TEST_F(SnapFollow, WhatHasNoFutureSaysSo) {
  for (const char* trigger : {"exit", "manual", "signal:SEGV", "fentry:vfs_read", "syscall:read:enter"}) {
    auto result = testing_support::RunBrink({"snap", "--on", trigger, "--source", "walk", "--", "/bin/true"});
    EXPECT_EQ(result.status, 2) << trigger;
    EXPECT_THAT(result.err, AnyOf(HasSubstr("nothing follows"), HasSubstr("no thread that could be followed"), HasSubstr("ask for it by kprobe"), HasSubstr("ask for the call's end"))) << trigger;
  }
  // Beside one that has, it is noted.
  auto both = testing_support::RunBrink({"snap", "--on", "exit", "--on", "syscall:brk", "--source", "walk", "--", "/bin/true"});
  EXPECT_EQ(both.status, 0);
  EXPECT_THAT(both.err, HasSubstr("nothing follows"));
  EXPECT_THAT(both.out, HasSubstr("the process ends here"));
}

TEST_F(SnapFollow, TheFileHasOneSampleACaptureWithItsBranches) {
  SKIP_UNLESS("bpf.uprobe");
  testing_support::TempDir dir;
  const std::string file = dir.path() + "/snap.data";
  Snapped snapped = Snap({"--on", "uprobe:" + Self() + ":snap_decide", "--source", "walk", "--no-chain", "-o", file}, "decide");
  ASSERT_EQ(snapped.captures.size(), 400u) << snapped.process.err;
  auto script = testing_support::RunBrink({"script", "-i", file, "-F", "tid,brstack"});
  EXPECT_EQ(script.status, 0) << script.err;
  size_t lines = 0, with = 0;
  for (size_t at = 0, end; (end = script.out.find('\n', at)) != std::string::npos; at = end + 1) {
    ++lines;
    with += script.out.substr(at, end - at).find("/") != std::string::npos;
  }
  EXPECT_EQ(lines, 400u) << script.out.substr(0, 400);
  EXPECT_EQ(with, Walked(snapped));
}

}  // namespace
}  // namespace brink::snap_tests
