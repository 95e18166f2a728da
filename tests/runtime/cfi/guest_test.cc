// brink cfi where the kernel has BPF LSM, and where there is branch hardware: what the plugin of tests/vm records.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing_support::RunBrink;
using Json = nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(800);  // below the target's TIMEOUT; a guest has a fraction of a CPU
constexpr const char* kAttacks[] = {"A1", "A1r", "A2", "A2r", "A3", "A3r", "A4", "A5", "A5r", "A6", "A7", "A8", "A9", "A10", "A10l", "A11", "A12", "A13", "A14", "A15", "A16", "A17", "A17r", "A18", "A19", "A20", "A21", "A22"};

struct Watched {
  std::map<std::string, int> status;                          // by attack
  std::map<std::string, std::set<std::string>> before, after; // rules, by attack: before the page became executable, and later
  Json report;
};

class CfiGuest : public testing::Test {
 protected:
  // Each attack is a program of its own name, so that alarms tell them apart.
  Watched Watch(const std::vector<std::string>& names, const std::vector<std::string>& options, const std::vector<std::string>& environment) {
    std::string script;
    for (const std::string& name : names) {
      std::error_code error;
      std::filesystem::create_symlink(BRINK_ATTACK, dir_.File(name), error);
      script += dir_.File(name) + " " + name + "; echo " + name + " $? >>" + dir_.File("status") + "; ";
    }
    std::ofstream(dir_.File("status"), std::ios::trunc);
    std::vector<std::string> words = {"cfi", "run", "-q", "--every", "--min-severity", "low", "--sink", "json:" + dir_.File("alarms"), "--report", dir_.File("report")};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script + "true"}) words.push_back(word);
    auto run = RunBrink(words, {.stdin_text = "", .timeout = kPatience, .cwd = "", .env = environment});
    EXPECT_EQ(run.status, 0) << run.err;
    Watched watched;
    std::ifstream status(dir_.File("status")), alarms(dir_.File("alarms")), report(dir_.File("report"));
    std::string name;
    for (int value; status >> name >> value;) watched.status[name] = value;
    for (std::string line; std::getline(alarms, line);) {
      const Json alarm = Json::parse(line);
      const std::string point = alarm["hook"]["point"], call = alarm["hook"]["syscall"].is_string() ? alarm["hook"]["syscall"] : "";
      const bool early = point != "syscall_exit" || (call != "mprotect" && call != "mmap");
      auto& rules = (early ? watched.before : watched.after)[alarm["process"]["comm"]];
      for (const auto& id : alarm["policy_ids"]) rules.insert(id.get<std::string>());
    }
    watched.report = Json::parse(report, nullptr, false);
    return watched;
  }
  std::string Words(const std::set<std::string>& rules) const {
    std::string out;
    for (const std::string& rule : rules) out += (out.empty() ? "" : " ") + rule;
    return out.empty() ? "-" : out;
  }
  testing_support::TempDir dir_;
};

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

TEST_F(CfiGuest, DenyKeepsThePageFromBecomingCode) {
  SKIP_UNLESS("bpf.lsm");
  SKIP_UNLESS("branch.snapshot");
  const std::vector<std::string> environment = {"ATTACK_ROUNDS=3", "ATTACK_PROVE=1"};
  const Watched dry = Watch({"A3"}, {"--check", "sensitive", "--hook", "raw", "--deny", "P1,P2"}, environment);
  EXPECT_EQ(dry.status.at("A3"), 43) << "the page's own code ends the program";
  EXPECT_GE(dry.report["actions"]["dry"], 1);
  EXPECT_EQ(dry.report["actions"]["denied"], 0);
  const Watched denied = Watch({"A3"}, {"--check", "sensitive", "--hook", "raw", "--deny", "P1,P2", "--act"}, environment);
  EXPECT_EQ(denied.status.at("A3"), 139) << "a jump into a page that is no code";
  EXPECT_GE(denied.report["actions"]["denied"], 1);
  std::printf("| mprotect, chain A3 | dry run: status %d | denied: status %d |\n", dry.status.at("A3"), denied.status.at("A3"));
}

TEST_F(CfiGuest, DenyKeepsTheProgramFromBeingExecuted) {
  SKIP_UNLESS("bpf.lsm");
  SKIP_UNLESS("branch.snapshot");
  const Watched dry = Watch({"exec"}, {"--check", "sensitive", "--hook", "raw", "--deny", "P1,P2"}, {"ATTACK_ROUNDS=3"});
  EXPECT_EQ(dry.status.at("exec"), 44) << "the executed program's status";
  const Watched denied = Watch({"exec"}, {"--check", "sensitive", "--hook", "raw", "--deny", "P1,P2", "--act"}, {"ATTACK_ROUNDS=3"});
  EXPECT_EQ(denied.status.at("exec"), 42) << "the chain goes on behind a call that failed";
  EXPECT_GE(denied.report["actions"]["denied"], 1);
  std::printf("| execve, chain | dry run: status %d | denied: status %d |\n", dry.status.at("exec"), denied.status.at("exec"));
}

}  // namespace
}  // namespace brink
