// `brink record --source walk` on programs that nobody here wrote: every stack must agree with the program text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <fstream>
#include <sstream>

#include "support/features.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "walk/recording_check.h"

namespace brink::testing_support {
namespace {

using testing::HasSubstr;

constexpr char kPython[] =
    "import json\nd={str(i):list(range(i%17)) for i in range(20000)}\n"
    "for _ in range(12): json.loads(json.dumps(d)); sorted(d, key=lambda k: k[::-1])\n";
constexpr char kPerl[] = "my %h; for my $i (1..600000) { $h{($i*7919)%65537} .= chr(65+$i%26) } print scalar(keys %h)";

struct Program {
  std::string name;
  std::vector<std::string> argv;
};

class Walk : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    std::ofstream text(dir_.File("text"));
    uint32_t seed = 12345;
    for (int i = 0; i < 60000; ++i) {
      seed = seed * 1103515245 + 12345;
      text << seed % 99991 << " line " << std::string(seed >> 20 & 15, 'x') << " " << (seed >> 7) << "\n";
    }
  }

  RecordingVerdict Record(std::vector<std::string> options, const std::vector<std::string>& argv) {
    std::vector<std::string> words = {"record", "-o", dir_.File("data"), "-F", "1999", "--walk-share", "2"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), argv.begin(), argv.end());
    result_ = RunBrink(words, {.timeout = std::chrono::seconds(60)});
    EXPECT_EQ(result_.status, 0) << result_.err;
    auto verdict = CheckRecording(dir_.File("data"));
    EXPECT_THAT(verdict, IsOk());
    return verdict.ok() ? *verdict : RecordingVerdict{};
  }

  static std::vector<std::string> Modes() {
    if (HasFeature("source.walk_task")) return {"irq", "task"};
    return {"irq"};
  }

  TempDir dir_;
  ProcessResult result_;
};

TEST_F(Walk, NeverContradictsTheProgramText) {
  const std::vector<Program> programs = {
      {"python3", {"/usr/bin/python3", "-c", kPython}},
      {"gzip", {"gzip", "-9", "-c", dir_.File("text")}},
      {"xz", {"xz", "-2", "-c", dir_.File("text")}},
      {"perl", {"perl", "-e", kPerl}},
      {"sort", {"sort", dir_.File("text")}},
      {"busybox", {"busybox", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"}},
  };
  for (const std::string& mode : Modes()) {
    for (const Program& program : programs) {
      SCOPED_TRACE(program.name + " " + mode);
      RecordingVerdict verdict = Record({"--source", "walk", "--walk-mode", mode}, program.argv);
      std::printf("%-4s %-8s %s\n", mode.c_str(), program.name.c_str(), Describe(verdict).c_str());
      EXPECT_EQ(verdict.code.wrong, 0u) << testing::PrintToString(verdict.code.complaints);
      EXPECT_EQ(verdict.unmapped, 0u);
      EXPECT_GT(verdict.with_stack, 0u) << result_.err;
      EXPECT_GT(verdict.code.ranges, verdict.with_stack);
    }
  }
}

TEST_F(Walk, GoesDeepOnTheWayBackToUserSpace) {
  SKIP_UNLESS("source.walk_task");
  for (uint32_t depth : {512u, 2048u}) {
    RecordingVerdict verdict = Record({"--walk-mode", "task", "--depth", std::to_string(depth), "--walk-share", "50", "-g"}, {"gzip", "-9", "-c", dir_.File("text")});
    EXPECT_EQ(verdict.code.wrong, 0u) << testing::PrintToString(verdict.code.complaints);
    EXPECT_GT(verdict.mean_depth(), depth / 5) << Describe(verdict);
    EXPECT_GT(verdict.share(BRINK_STOP_FULL), 0.02) << Describe(verdict);
  }
}

TEST_F(Walk, SaysWhyItWalksInTheInterruptWhereTaskModeCannotBe) {
  ProcessResult result = RunBrink({"record", "--source", "walk", "-o", dir_.File("d"), "--", "true"}, {.env = {"BRINK_FAKE=bpf.task_work=off"}});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("walks happen in the sampling interrupt"));
  result = RunBrink({"record", "--walk-mode", "task", "-o", dir_.File("d"), "--", "true"}, {.env = {"BRINK_FAKE=bpf.task_work=off"}});
  EXPECT_EQ(result.status, 125) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--walk-mode task"));
}

TEST_F(Walk, ReachesFullStacksInHotCode) {
  RecordingVerdict verdict = Record({"--source", "walk"}, {"gzip", "-9", "-c", dir_.File("text")});
  // gzip's loops hold nothing that the walker does not know.
  EXPECT_GT(verdict.warm_samples, 50u) << Describe(verdict);
  EXPECT_GT(verdict.warm_share(BRINK_STOP_FULL), 0.8) << Describe(verdict);
}

// Memory that can be read is not memory that may be stored to or executed: a walk ends where the program faults.
TEST_F(Walk, EndsWhereTheProgramFaultsOnPurpose) {
  RecordingVerdict verdict = Record({"--source", "walk"}, {WALK_FAULTING, "40000"});
  EXPECT_EQ(verdict.code.wrong, 0u) << testing::PrintToString(verdict.code.complaints);
  EXPECT_GT(verdict.share(BRINK_STOP_FAULT), 0.3) << Describe(verdict);
  std::istringstream told(result_.out);
  std::vector<std::pair<uint64_t, uint64_t>> never;
  for (uint64_t start, end; told >> std::hex >> start >> end;) never.emplace_back(start, end);
  ASSERT_EQ(never.size(), 5u) << result_.out;
  ProcessResult script = RunBrink({"script", "-i", dir_.File("data"), "-F", "brstack"});
  ASSERT_EQ(script.status, 0) << script.err;
  uint64_t branches = 0, wrong = 0;
  std::istringstream entries(script.out);
  for (std::string entry; entries >> entry; ++branches) {
    const uint64_t from = std::stoull(entry, nullptr, 16);
    for (const auto& [start, end] : never) wrong += from >= start && from < end;
  }
  EXPECT_GT(branches, 100u);
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Walk, AutoTakesTheWalkWhereThereIsNoBranchHardware) {
  if (HasFeature("source.lbr")) GTEST_SKIP() << "this machine has branch hardware";
  RecordingVerdict verdict = Record({}, {"gzip", "-c", dir_.File("text")});
  EXPECT_THAT(result_.err, HasSubstr("source walk"));
  EXPECT_GT(verdict.with_stack, 0u);
}

TEST_F(Walk, DepthIsWhatWasAskedFor) {
  for (uint32_t depth : {1u, 7u, 128u}) {
    RecordingVerdict verdict = Record({"--source", "walk", "--depth", std::to_string(depth), "--walk-share", "20"}, {"gzip", "-9", "-c", dir_.File("text")});
    ASSERT_GT(verdict.with_stack, 0u) << result_.err;
    EXPECT_LE(verdict.mean_depth(), depth);
    EXPECT_GT(verdict.warm_depth(), depth * 0.8) << Describe(verdict);
    EXPECT_EQ(verdict.code.wrong, 0u) << testing::PrintToString(verdict.code.complaints);
  }
}

TEST_F(Walk, TheBucketHoldsAtAFrequencyThatWouldStarveTheTarget) {
  RecordingVerdict verdict = Record({"--source", "walk", "-F", "20000", "--walk-share", "1"}, {"gzip", "-9", "-c", dir_.File("text")});
  EXPECT_THAT(result_.err, HasSubstr("throttled"));
  EXPECT_EQ(verdict.code.wrong, 0u);
}

// What the default share thins out is no loss that the status tells of; what a share that was asked for leaves out is.
TEST_F(Walk, TheDefaultShareThinsSamplesAndTheStatusIsGood) {
  auto busy = testing_support::Run({"/bin/sh", "-c", "while :; do :; done > /dev/null 2>&1 & echo $!"});
  const std::string pid = busy.out.substr(0, busy.out.find('\n'));
  auto record = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"record", "--source", "walk", "-F", "20000", "--duration", "700ms", "-p", pid, "-o", dir_.File("thin.data")};
    words.insert(words.end(), more.begin(), more.end());
    return RunBrink(words, {.timeout = std::chrono::seconds(60)});
  };
  ProcessResult usual = record({}), asked = record({"--walk-share", "0.05"});
  ::kill(std::stoi(pid), SIGKILL);
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_EQ(asked.status, 3) << asked.err;
  EXPECT_THAT(asked.err, HasSubstr("--walk-share"));
}

TEST_F(Walk, OtherToolsReadTheRecording) {
  Record({"--source", "walk"}, {"gzip", "-c", dir_.File("text")});
  ProcessResult perf = testing_support::Run({"perf", "script", "-i", dir_.File("data"), "-F", "ip,brstack"});
  EXPECT_EQ(perf.status, 0);
  EXPECT_EQ(perf.err, "");
  ProcessResult ours = RunBrink({"script", "-i", dir_.File("data"), "-F", "ip,brstack"});
  EXPECT_EQ(ours.status, 0) << ours.err;
  EXPECT_EQ(ours.out, perf.out);
}

TEST_F(Walk, RefusesWhatItCannotDo) {
  ProcessResult deep = RunBrink({"record", "--walk-mode", "irq", "--depth", "500", "-o", dir_.File("d"), "--", "true"});
  EXPECT_EQ(deep.status, 2) << deep.err;
  EXPECT_THAT(deep.err, HasSubstr("at most 128"));
  ProcessResult slow = RunBrink({"record", "--walk-mode", "irq", "--walk-budget", "1ms", "-o", dir_.File("d"), "--", "true"});
  EXPECT_THAT(slow.err, HasSubstr("at most 100us"));
}

}  // namespace
}  // namespace brink::testing_support
