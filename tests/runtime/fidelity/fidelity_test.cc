// Walks against the CPU: 0 wrong. A few hundred stops by default, 20,000 with BRINK_LONG=1.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "programs.h"
#include "support/process.h"
#include "walk_predictor.h"

namespace brink::fidelity {
namespace {

constexpr uint32_t kDepth = 32;

TEST(Fidelity, WalksOfForeignProgramsAreExactOrShortened) {
  bool thorough = std::getenv("BRINK_LONG") != nullptr;
  testing_support::TempDir folder;
  std::vector<std::string> missing;
  std::vector<Program> programs = MakePrograms(folder.path(), BRINK_THROWING, &missing);
  for (const std::string& name : missing) std::printf("not installed: %s\n", name.c_str());
  ASSERT_GE(programs.size(), 10u);
  Options options{.depth = kDepth, .windows = thorough ? 1300u : 18u, .seconds = thorough ? 240.0 : 5.0, .alone = true};
  std::vector<std::pair<std::string, Tally>> tallies;
  uint32_t windows = 0;
  for (const Program& program : programs) {
    // What other threads change is no fault of a walk: they stand.
    Tally tally = Judge(program, WalkPredictor(kDepth), options);
    tallies.emplace_back(program.name, tally);
    windows += tally.windows;
    for (const Wrong& wrong : tally.wrongs) std::printf("WRONG %s: %s\n", wrong.program.c_str(), wrong.text.c_str());
    EXPECT_EQ(tally.wrong, 0u) << program.name;
    EXPECT_GT(tally.windows, 0u) << program.name;
  }
  std::printf("%s", Table(tallies, kDepth).c_str());
  EXPECT_GE(windows, thorough ? 20'000u : 50u);
}

// How often other threads change what a walk has read is published (the tool measures it). Here: each time that it
// happens is proved to be that.
TEST(Fidelity, OnlyOtherThreadsMakeARecordDifferFromWhatComes) {
  testing_support::TempDir folder;
  std::vector<std::string> missing;
  std::vector<Program> programs = MakePrograms(folder.path(), BRINK_THROWING, &missing);
#ifdef BRINK_SPECIAL
  programs.push_back({"threads", {BRINK_SPECIAL, "threads"}, false, ""});
#endif
  Options options{.depth = kDepth, .windows = 12, .seconds = 4.0, .delay_us = 2000, .again = WalkPredictor(kDepth)};
  uint32_t windows = 0;
  for (const Program& program : programs) {
    if (program.single_threaded) continue;
    Tally tally = Judge(program, WalkPredictor(kDepth), options);
    std::printf("%-16s %u windows, %u differ, %u of them explained\n", program.name.c_str(), tally.windows, tally.wrong, tally.explained);
    for (const Wrong& wrong : tally.wrongs) {
      if (!wrong.explained) std::printf("WRONG %s: %s\n", wrong.program.c_str(), wrong.text.c_str());
    }
    EXPECT_EQ(tally.wrong, tally.explained) << program.name;
    windows += tally.windows;
  }
  EXPECT_GT(windows, 10u);
}

}  // namespace
}  // namespace brink::fidelity
