// brink diff on exact recordings: the same program twice, and two versions of it.
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "exact_recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RunBrink;
using testing_support::TempDir;

// Alternates between two functions; SHARE sets how much of the time is spent in heavy().
constexpr char kProgram[] = R"(
static volatile unsigned sink;
__attribute__((noinline)) void heavy(void) { for (int i = 0; i < HEAVY; ++i) sink += i; }
__attribute__((noinline)) void light(void) { for (int i = 0; i < 20; ++i) sink ^= i; }
int main(void) { for (int i = 0; i < 2000000; ++i) { heavy(); light(); } }
)";

class DiffTest : public testing::Test {
 protected:
  bool Record(const std::string& name, int heavy, const char* extra = "-DNONE") {
    std::ofstream(dir_.File("prog.c")) << kProgram;
    testing_support::Run({"mkdir", "-p", dir_.File(name)});
    const std::string program = dir_.File(name) + "/prog";
    if (testing_support::Run({"gcc", "-O1", "-g", "-DHEAVY=" + std::to_string(heavy), extra, "-o", program, dir_.File("prog.c")}).status != 0) return false;
    return testing_report::RecordExactly({.command = {program}, .output = File(name), .windows = 60, .depth = 32}).ok();
  }
  std::string File(const std::string& name) { return dir_.File(name + ".data"); }
  std::vector<json> Rows(const std::vector<std::string>& words, int status = 0) {
    auto result = RunBrink(words);
    EXPECT_EQ(result.status, status) << result.err;
    std::vector<json> out;
    for (std::string_view line : Split(result.out, '\n')) {
      if (!line.empty()) out.push_back(json::parse(line));
    }
    return out;
  }
  TempDir dir_;
};

TEST_F(DiffTest, TheSameProgramTwiceIsNoise) {
  if (!Record("a", 20) || !Record("b", 20)) GTEST_SKIP() << "needs gcc and ptrace";
  auto rows = Rows({"diff", "--json", "-t", "functions", "-S", "heavy,light,main", "--noise", "6", "--fail-above", "0", File("a"), File("b")});
  ASSERT_GE(rows.size(), 3u);
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i]["noise"], true) << rows[i];
}

TEST_F(DiffTest, AChangedShareIsFoundAcrossBuilds) {
  if (!Record("a", 20) || !Record("b", 80, "-fno-align-loops")) GTEST_SKIP() << "needs gcc and ptrace";
  auto rows = Rows({"diff", "--json", "-t", "functions", "--fail-above", "5", File("a"), File("b")}, 4);
  std::map<std::string, json> by_name;
  for (size_t i = 1; i < rows.size(); ++i) by_name[rows[i]["function"]] = rows[i];
  // 20 of 40 loop branches against 80 of 100.
  EXPECT_EQ(by_name["heavy"]["noise"], false);
  EXPECT_GT(by_name["heavy"]["delta_share"].get<double>(), 0.15);
  EXPECT_LT(by_name["light"]["delta_share"].get<double>(), -0.15);
  EXPECT_EQ(rows[0]["old_samples"], 60);
  // Largest change beyond noise first.
  EXPECT_EQ(rows[1]["noise"], false);
  // Counts are those that report has.
  uint64_t count = 0;
  for (const json& row : Rows({"report", "--json", "-i", File("a"), "-t", "functions"})) {
    if (row.contains("function") && row["function"] == "heavy") count = row["branches"];
  }
  EXPECT_EQ(by_name["heavy"]["old_count"], count);
}

TEST_F(DiffTest, SeveralRecordingsASideAndOnlyChangedRows) {
  if (!Record("a", 20) || !Record("b", 20) || !Record("c", 80) || !Record("d", 80)) GTEST_SKIP() << "needs gcc and ptrace";
  auto rows = Rows({"diff", "--json", "--changed", "-t", "lines", File("a"), File("b"), "--", File("c"), File("d")});
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows[0]["old"].size(), 2u);
  EXPECT_EQ(rows[0]["new_samples"], 120);
  bool heavy = false;
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_NE(rows[i]["noise"], true);
    heavy = heavy || rows[i]["line"] == "prog.c:3";
  }
  EXPECT_TRUE(heavy);
}

TEST_F(DiffTest, WrongUseIsExplained) {
  EXPECT_EQ(RunBrink({"diff"}).status, 2);
  EXPECT_THAT(RunBrink({"diff", "one.data"}).err, HasSubstr("OLD and NEW"));
  EXPECT_EQ(RunBrink({"diff", "--", "one.data"}).status, 2);
  EXPECT_EQ(RunBrink({"diff", dir_.File("none"), dir_.File("none")}).status, 1);
}

}  // namespace
}  // namespace brink
