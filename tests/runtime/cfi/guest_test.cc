// brink cfi where there is branch hardware: what the plugin of tests/vm records.
#include <sstream>

#include "guest.h"

namespace brink {
namespace {

constexpr const char* kAttacks[] = {"A1", "A1r", "A2", "A2r", "A3", "A3r", "A4", "A5", "A5r", "A6", "A7", "A8", "A9", "A10", "A10l", "A11", "A12", "A13", "A14", "A15", "A16", "A17", "A17r", "A18", "A19", "A20", "A21", "A22"};

TEST_F(CfiGuest, HardwareHistoryShowsTheAttacks) {
  SKIP_UNLESS("branch.snapshot");
  const Watched watched = Watch({std::begin(kAttacks), std::end(kAttacks)}, {"--source", "lbr", "--check", "sensitive", "--hook", "raw", "--warm", BRINK_ATTACK, "--walk-budget", "100us"}, {"ATTACK_ROUNDS=3"});
  std::printf("| attack | history at the entry | later |\n|---|---|---|\n");
  for (const char* name : kAttacks) {
    auto rules = [&](const auto& from) { return from.count(name) ? from.at(name) : std::set<std::string>(); };
    std::printf("| %s | %s | %s |\n", name, Words(rules(watched.before)).c_str(), Words(rules(watched.after)).c_str());
  }
  EXPECT_EQ(watched.report["hardware"], true);
  EXPECT_EQ(watched.report["no_past"], 0) << "the way back from the kernel at least";
  // What has led to the call that makes the page executable is in the window.
  for (const char* name : {"A1", "A2", "A3", "A5", "A6", "A9", "A12", "A17"}) {
    EXPECT_EQ(watched.status.at(name), 42) << name;
    EXPECT_TRUE(watched.before.count(name) && watched.before.at(name).count("P2")) << name;
  }
  EXPECT_TRUE(watched.before.count("A4") && watched.before.at("A4").count("P1"));
  EXPECT_TRUE(watched.before.count("A13") && watched.before.at("A13").count("P3"));
}

// The hardware is emptied at a switch. That a sensitive call comes so soon after one is told: it is all there is to see.
TEST_F(CfiGuest, AHistoryThatASleepHasEmptiedIsCounted) {
  SKIP_UNLESS("branch.snapshot");
  const Watched watched = Watch({"short"}, {"--source", "lbr", "--check", "sensitive", "--hook", "raw"}, {"ATTACK_ROUNDS=3"});
  EXPECT_EQ(watched.status.at("short"), 0);
  EXPECT_GE(watched.report["short_past"], 5);
}

// Nothing of an honest program is an alarm, true branches or not.
TEST_F(CfiGuest, HonestProgramsRaiseNothing) {
  SKIP_UNLESS("branch.snapshot");
  auto run = RunBrink({"cfi", "run", "-q", "--every", "--source", "lbr", "--check", "sensitive", "--hook", "raw", "--sink", "json:" + dir_.File("alarms"), "--report", dir_.File("report"), "--", "sh", "-c",
                       "for i in 1 2 3 4; do ls / >/dev/null; cat /proc/self/maps | sort | head -3 >/dev/null; done"}, {.stdin_text = "", .timeout = kPatience, .cwd = "", .env = {}});
  EXPECT_EQ(run.status, 0) << run.err;
  std::ifstream alarms(dir_.File("alarms")), report(dir_.File("report"));
  std::stringstream told;
  told << alarms.rdbuf();
  EXPECT_EQ(told.str(), "");
  const Json counts = Json::parse(report, nullptr, false);
  EXPECT_GT(counts["checked"], 50);
  std::printf("| honest programs | %s edges, %s checked, 0 alarms | |\n", counts["edges"].dump().c_str(), counts["checked"].dump().c_str());
}

}  // namespace
}  // namespace brink
