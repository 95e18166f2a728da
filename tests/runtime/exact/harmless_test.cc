// The sources leave their targets as they were: whatever happens to brink, a target ends with its own status, its system
// calls give what they give, it cannot see flags, masks or handlers that are not its own, and no BPF program stays.
#include <csignal>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.h"
#include "support/features.h"
#include "support/process.h"
#include "support/status_matchers.h"
#include "walk/recording_check.h"

namespace brink::exact_test {
namespace {

using testing_support::RunBrink;
using testing_support::RunOptions;
using testing_support::TempDir;

struct Mode {
  const char* name;
  std::vector<std::string> options;
};

const Mode kModes[] = {
    {"step", {"--source", "step", "-F", "500"}},
    {"hop", {"--source", "hop", "-F", "1000"}},
    {"whole", {"--source", "step", "--whole-run"}},
    {"walk_irq", {"--source", "walk", "--walk-mode", "irq", "-F", "2000", "--walk-share", "0"}},
    {"walk_task", {"--source", "walk", "--walk-mode", "task", "-F", "2000", "--walk-share", "0", "--depth", "256"}},
    {"walk_auto", {"--source", "walk", "-F", "2000", "--walk-share", "0"}},
};

std::vector<std::string> Record(const Mode& mode, const TempDir& folder, std::vector<std::string> more) {
  std::vector<std::string> words = {"record", "-q", "-o", folder.File("out.data")};
  words.insert(words.end(), mode.options.begin(), mode.options.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Harmless : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    std::string_view name = GetParam().name;
    if (name == "walk_irq") SKIP_UNLESS("source.walk");
    if (name == "walk_task" || name == "walk_auto") SKIP_UNLESS("source.walk_task");
  }
};

TEST_P(Harmless, TargetsSurviveTheDeathOfBrinkAtAnyMoment) {
  TempDir folder;
  std::mt19937 random(11);
  int rounds = Thorough() ? 100 : 10;
  int survived = 0;
  size_t loaded = 0;
  for (int i = 0; i < rounds; ++i) {
    pid_t target = StartTarget({"work", std::to_string(Patient(900)), "33"});
    SleepMs(20);
    pid_t brink = StartBrink(Record(GetParam(), folder, {"-p", std::to_string(target)}));
    // From before the helper is there to well into the recording.
    SleepMs(static_cast<double>(random() % static_cast<unsigned>(Patient(800))));
    std::vector<uint32_t> programs = BpfPrograms(brink);
    ::kill(brink, SIGKILL);
    WaitFor(brink, 10);
    EXPECT_TRUE(ProgramsAreGone(programs, 10)) << "round " << i;
    loaded += programs.size();
    int status = WaitFor(target, 60);
    EXPECT_EQ(status, 33) << "round " << i;
    survived += status == 33;
  }
  EXPECT_EQ(survived, rounds);
  if (std::string_view(GetParam().name).starts_with("walk")) {
    EXPECT_GT(loaded, 0u);
  }
}

TEST_P(Harmless, TargetsSurviveAnOrderlyEnd) {
  TempDir folder;
  for (const char* duration : {"1ms", "250ms", "500ms"}) {
    pid_t target = StartTarget({"work", std::to_string(Patient(2500)), "33"});
    SleepMs(20);
    auto brink = RunBrink(Record(GetParam(), folder, {"-p", std::to_string(target), "--duration", duration}));
    EXPECT_EQ(brink.status, 0) << brink.err;
    EXPECT_EQ(WaitFor(target, 60), 33) << duration;
  }
}

TEST_P(Harmless, AProgramSeesTheSameWithAndWithout) {
  TempDir folder;
  const char* turns = GetParam().name == std::string_view("whole") ? "10" : "20000";
  auto alone = testing_support::Run({TargetPath(), "check", turns});
  auto words = Record(GetParam(), folder, {"--", TargetPath(), "check", turns});
  auto followed = RunBrink(words, {.timeout = std::chrono::seconds(120)});
  EXPECT_EQ(alone.status, 17);
  EXPECT_EQ(followed.status, 17) << followed.err;
  EXPECT_EQ(followed.out, alone.out);
}

TEST_P(Harmless, SystemCallsEndAsTheyWould) {
  if (GetParam().name == std::string_view("whole") && !Thorough()) GTEST_SKIP() << "long: BRINK_LONG=1";
  TempDir folder;
  // Between two calls lie 60,000 instructions, and a whole run stops at each.
  const char* count = Thorough() && GetParam().name != std::string_view("whole") ? "25000" : "150";
  RunOptions patient{.timeout = std::chrono::seconds(Thorough() ? 1500 : 60)};
  auto alone = testing_support::Run({TargetPath(), "calls", count}, patient);
  auto followed = RunBrink(Record(GetParam(), folder, {"--", TargetPath(), "calls", count}), patient);
  EXPECT_EQ(followed.status, 0) << followed.err;
  EXPECT_THAT(alone.out, testing::HasSubstr("EINTR 0, odd 0"));
  EXPECT_EQ(followed.out, alone.out);
}

// Not a matter of harm, but of the same runs: what an outsider's decoder says of a foreign program's recording.
TEST_P(Harmless, RecordingsOfForeignProgramsAreTrueToTheirText) {
  if (GetParam().name == std::string_view("whole") && !Thorough()) GTEST_SKIP() << "long: BRINK_LONG=1";
  TempDir folder;
  auto brink = RunBrink(Record(GetParam(), folder, {"--", "perl", "-e", "$n{$_ % 97} .= chr($_ % 61) for 1 .. 1500000; exit 3"}),
                        {.timeout = std::chrono::seconds(120)});
  EXPECT_EQ(brink.status, 3) << brink.err;
  auto verdict = testing_support::CheckRecording(folder.File("out.data"));
  ASSERT_THAT(verdict, testing_support::IsOk());
  EXPECT_GT(verdict->with_stack, 0u);
  EXPECT_GT(verdict->code.ranges, 32u);
  EXPECT_EQ(verdict->code.wrong, 0u) << testing::PrintToString(verdict->code.complaints);
}

INSTANTIATE_TEST_SUITE_P(Modes, Harmless, testing::ValuesIn(kModes), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace brink::exact_test
