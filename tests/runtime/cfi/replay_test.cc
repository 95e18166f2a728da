// brink cfi on recordings, by the real binary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "base/strings.h"
#include "exact_recording.h"
#include "runtime/filter/every_kind.h"
#include "support/process.h"

namespace brink {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RunBrink;
using testing_support::TempDir;

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  for (std::string_view line : Split(text, '\n')) {
    if (!line.empty()) lines.push_back(json::parse(line));
  }
  return lines;
}

class CfiReplay : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing_filter::BuildEveryKind(dir_.File("demo"))) GTEST_SKIP() << "needs gcc";
    auto counts = testing_report::RecordExactly({.command = {dir_.File("demo")}, .output = dir_.File("r.data"), .windows = 20, .depth = 64});
    if (!counts.ok()) GTEST_SKIP() << "needs ptrace";
    branches_ = counts->branches;
  }
  TempDir dir_;
  uint64_t branches_ = 0;
};

TEST_F(CfiReplay, ALegalProgramRaisesNothing) {
  auto result = RunBrink({"cfi", "replay", dir_.File("r.data"), "--json", "--min-severity", "medium", "--fail-on", "medium"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  json summary = Lines(result.out).back();
  EXPECT_EQ(summary["schema"], "brink.cfi.summary.v1");
  EXPECT_EQ(summary["edges"], branches_);
  EXPECT_EQ(summary["checked"], branches_);
  EXPECT_EQ(summary["policies"]["P1"]["violated"], 0);
  EXPECT_GT(summary["policies"]["P2"]["held"], 0);
  EXPECT_GT(summary["policies"]["P3"]["held"], 0);
  EXPECT_GT(summary["policies"]["P4"]["held"], 0);
  EXPECT_THAT(RunBrink({"cfi", "replay", dir_.File("r.data")}).out, HasSubstr("no violation of severity medium"));
}

// The file that ran is not the file that is there: direct branches tell.
TEST_F(CfiReplay, ChangedCodeIsSeenAndExplained) {
  const std::string program = dir_.File("other"), source = dir_.File("demo.c");
  auto build = [&](const char* level) { return testing_support::Run({"gcc", level, "-no-pie", "-Wl,--build-id=none", "-o", program, source}).status; };
  ASSERT_EQ(build("-O1"), 0);
  ASSERT_TRUE(testing_report::RecordExactly({.command = {program}, .output = dir_.File("o.data"), .windows = 10, .depth = 64}).ok());
  // Another program under the same path, without build-ids to tell them apart.
  ASSERT_EQ(build("-O0"), 0);
  auto result = RunBrink({"cfi", "replay", dir_.File("o.data"), "--json", "--fail-on", "medium"});
  EXPECT_EQ(result.status, 4) << result.out << result.err;
  auto lines = Lines(result.out);
  ASSERT_GT(lines.size(), 1u);
  std::ofstream(dir_.File("event")) << lines[0].dump() << "\n";
  auto words = RunBrink({"cfi", "explain", dir_.File("event")});
  EXPECT_EQ(words.status, 0) << words.err;
  EXPECT_THAT(words.out, HasSubstr("The rule"));
  EXPECT_THAT(words.out, HasSubstr("What would have excused it"));
  EXPECT_THAT(RunBrink({"cfi", "replay", dir_.File("o.data")}).out, HasSubstr("-X->"));
}

TEST_F(CfiReplay, JsonFollowsItsSchema) {
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  ASSERT_EQ(RunBrink({"cfi", "replay", dir_.File("r.data"), "--min-severity", "info", "--json=" + dir_.File("lines")}).status, 0);
  auto check = testing_support::Run({"/usr/bin/python3", "-c",
                                     "import json,sys,jsonschema\n"
                                     "v = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))\n"
                                     "for line in open(sys.argv[2]): v.validate(json.loads(line))",
                                     testing_support::SourceDir() + "/docs/schema/cfi.json", dir_.File("lines")});
  EXPECT_EQ(check.status, 0) << check.err;
}

TEST_F(CfiReplay, MissingFilesAreUnknownAndRaiseNothing) {
  TempDir empty;
  auto result = RunBrink({"cfi", "replay", dir_.File("r.data"), "--symfs", empty.path(), "--json", "--min-severity", "info"});
  ASSERT_EQ(result.status, 0) << result.err;
  auto lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["policies"]["P1"]["held"], 0);
  EXPECT_GT(lines[0]["policies"]["P1"]["unknown"]["no_file"], 0);
}

TEST(CfiWords, MistakesAreNamed) {
  EXPECT_EQ(RunBrink({"cfi", "repaly", "x"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "run", "-o", "x"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "run", "--kill", "P3"}).status, 2);
  EXPECT_THAT(RunBrink({"cfi", "run", "--calls", "raed"}).err, HasSubstr("nearest: read"));
  EXPECT_EQ(RunBrink({"cfi", "replay"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "replay", "/nonexistent"}).status, 1);
  EXPECT_EQ(RunBrink({"cfi", "explain", "{\"schema\":\"other\"}"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "explain", "{}"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "explain", "{\"schema\":\"brink.cfi.event.v1\",\"policy\":7}"}).status, 2);
  EXPECT_EQ(RunBrink({"cfi", "explain", "{\"schema\":\"brink.cfi.event.v1\",\"policy\":\"P1\",\"violation\":[1],\"window\":{\"len\":-1}}"}).status, 0);
  EXPECT_THAT(RunBrink({"cfi", "replay", "x", "--min-severity", "severe"}).err, HasSubstr("info, low, medium or high"));
}

// Real hardware: what its files are is not known here, so nothing may be raised but what the records say themselves.
TEST(CfiRecordings, HardwareOfOtherMachines) {
  for (const char* name : {"skylake-lbr32", "sandybridge-lbr16-callchain", "arm-etm-kernel"}) {
    auto file = testing_support::SharedData(std::string("perfdata/") + name + ".data");
    if (!file) GTEST_SKIP() << "needs the shared recordings";
    auto result = RunBrink({"cfi", "replay", *file, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(Lines(result.out).back()["schema"], "brink.cfi.summary.v1");
  }
}

}  // namespace
}  // namespace brink
