// Recordings without kinds (kernels before 4.14, perf without save_type): --where takes the kind from the code at the
// branch. The judge is objdump. And what is said about spellings that articles teach.
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "every_kind.h"
#include "exact_recording.h"
#include "support/process.h"

namespace brink {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RunBrink;
using testing_support::TempDir;

std::vector<json> Rows(const std::string& text, std::string_view schema) {
  std::vector<json> rows;
  for (std::string_view line : Split(text, '\n')) {
    if (line.empty()) continue;
    json row = json::parse(line);
    if (row["schema"] == schema) rows.push_back(std::move(row));
  }
  return rows;
}

// Kind by address of every branch instruction of a program, from objdump's text.
std::map<std::string, std::string> KindsOfCode(const std::string& program) {
  std::map<std::string, std::string> kinds;
  for (std::string_view line : Split(testing_support::Run({"objdump", "-d", "--no-show-raw-insn", program}).out, '\n')) {
    size_t colon = line.find(":\t");
    if (colon == std::string_view::npos) continue;
    std::string address = "0x" + std::string(Trim(line.substr(0, colon)));
    std::string_view code = Trim(line.substr(colon + 2));
    for (std::string_view prefix : {"bnd ", "notrack ", "repz ", "rep "}) {
      if (code.starts_with(prefix)) code.remove_prefix(prefix.size());
    }
    const bool indirect = code.find('*') != std::string_view::npos;
    if (code.starts_with("jmp")) kinds[address] = indirect ? "ind_jump" : "jump";
    else if (code.starts_with("j")) kinds[address] = "cond";
    else if (code.starts_with("call")) kinds[address] = indirect ? "ind_call" : "call";
    else if (code.starts_with("ret")) kinds[address] = "ret";
  }
  return kinds;
}

class UntypedRecording : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir();
    program_ = dir_->File("demo");
    if (!testing_filter::BuildEveryKind(program_)) return;
    made_ = testing_report::RecordExactly({.command = {program_}, .output = dir_->File("demo.data"), .windows = 20, .depth = 64, .kinds = false}).ok();
  }
  static void TearDownTestSuite() { delete dir_; }
  void SetUp() override {
    if (!made_) GTEST_SKIP() << "needs gcc and ptrace";
    if (testing_support::Run({"objdump", "--version"}).status != 0) GTEST_SKIP() << "needs objdump";
  }
  static TempDir* dir_;
  static std::string program_;
  static bool made_;
};
TempDir* UntypedRecording::dir_ = nullptr;
std::string UntypedRecording::program_;
bool UntypedRecording::made_ = false;

TEST_F(UntypedRecording, KindsComeFromTheCode) {
  ASSERT_EQ(RunBrink({"script", "-i", dir_->File("demo.data"), "-F", "brstack", "-n", "1"}).out.find("COND"), std::string::npos);
  const auto truth = KindsOfCode(program_);
  auto all = Rows(RunBrink({"report", "-i", dir_->File("demo.data"), "-t", "branches", "--json", "-d", "demo"}).out, "brink.report.branches.v1");
  ASSERT_GT(all.size(), 10u);
  std::map<std::string, uint64_t> want;  // count by kind
  for (const json& row : all) {
    if (row["from_object"] == "demo") want[truth.at(row["from_address"])] += row["count"].get<uint64_t>();
  }
  ASSERT_EQ(want.size(), 6u);
  for (const char* kind : {"cond", "jump", "ind_jump", "call", "ind_call", "ret"}) {
    uint64_t count = 0;
    auto rows = Rows(RunBrink({"report", "-i", dir_->File("demo.data"), "-t", "branches", "--json", "-d", "demo", "--where", std::string("kind == ") + kind}).out, "brink.report.branches.v1");
    for (const json& row : rows) {
      if (row["from_object"] != "demo") continue;
      EXPECT_EQ(truth.at(row["from_address"]), kind);
      count += row["count"].get<uint64_t>();
    }
    EXPECT_EQ(count, want.contains(kind) ? want[kind] : 0) << kind;
  }
}

TEST_F(UntypedRecording, WithoutTheCodeAKindStaysUnknownAndIsCounted) {
  TempDir empty;
  auto result = RunBrink({"report", "-i", dir_->File("demo.data"), "--symfs", empty.path(), "-t", "branches", "--json", "--where", "kind == cond"});
  EXPECT_TRUE(Rows(result.out, "brink.report.branches.v1").empty());
  EXPECT_THAT(result.err, HasSubstr("unknown"));
  auto unknown = RunBrink({"report", "-i", dir_->File("demo.data"), "--symfs", empty.path(), "-t", "branches", "--json", "--where", "kind is unknown"});
  EXPECT_FALSE(Rows(unknown.out, "brink.report.branches.v1").empty());
}

// The targets of the demo's dispatcher, their shares and rates, under either name of the table.
TEST_F(UntypedRecording, IndirectTargetsIsTheTableOfCalls) {
  auto alias = RunBrink({"report", "-i", dir_->File("demo.data"), "--indirect-targets", "--json"});
  EXPECT_EQ(alias.out, RunBrink({"report", "-i", dir_->File("demo.data"), "-t", "calls", "--json"}).out);
  std::map<std::string, double> share;
  std::set<std::string> targets;
  for (const json& row : Rows(alias.out, "brink.report.calls.v1")) {
    share[row["site_address"].get<std::string>()] += row["share"].get<double>();
    targets.insert(row["target"].get<std::string>());
    EXPECT_FALSE(row["mispredict_rate"].is_null());
    EXPECT_GT(row["count"], 0);
  }
  ASSERT_FALSE(share.empty());
  for (const auto& [site, sum] : share) EXPECT_NEAR(sum, 1.0, 1e-6) << site;
  EXPECT_THAT(RunBrink({"report", "-i", dir_->File("demo.data"), "--indirect-targets"}).out, HasSubstr(*targets.begin()));
}

TEST_F(UntypedRecording, PredictionAndPrivilegeNeedNoCode) {
  auto count = [&](const std::string& where) {
    return Rows(RunBrink({"report", "-i", dir_->File("demo.data"), "--json", "--where", where}).out, "brink.report.summary.v1").at(0)["branches"].get<uint64_t>();
  };
  const uint64_t all = count("priv is not unknown");
  EXPECT_EQ(count("mispredicted") + count("predicted") + count("mispredicted is unknown"), all);
  EXPECT_EQ(count("priv == user") + count("priv == kernel"), all);
  EXPECT_EQ(count("crossing function") + count("within function") + count("crossing function is unknown"), all);
}

// Hardware that records the newest branch twice: a filter of the read side must not change what is dropped for that.
TEST(RecordedStacks, AFilterThatKeepsEverythingChangesNoCount) {
  auto file = testing_support::SharedData("perfdata/skylake-lbr32.data");
  if (!file) GTEST_SKIP() << "needs the shared recordings";
  auto summary = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"report", "-i", *file, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Rows(RunBrink(words).out, "brink.report.summary.v1").at(0);
  };
  json plain = summary({}), filtered = summary({"--where", "from > 0 or from is unknown"});
  EXPECT_GT(plain["rules"]["duplicate_newest"], 100);
  EXPECT_EQ(filtered["rules"]["duplicate_newest"], plain["rules"]["duplicate_newest"]);
  EXPECT_EQ(filtered["branches"], plain["branches"]);
  EXPECT_TRUE(plain["contiguous"]);
  EXPECT_FALSE(filtered["contiguous"]);
}

// What articles teach and nothing accepts: each is answered with what is right.
TEST(ArticleSpellings, AreRefusedWithTheRightOne) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"record", "-e", "arm_brbe/mpred1/", "--", "true"}, "there is no PMU 'arm_brbe'"},
      {{"record", "-e", "arm_brbe//u", "-a"}, "there is no PMU 'arm_brbe'"},
      {{"record", "-e", "arm_brbe/mpred1/", "-a"}, "--where mispredicted"},
      {{"annotate", "--branch-history"}, "belongs to report"},
      {{"record", "-a", "-j", "mispred,any"}, "no hardware filters on misprediction"},
      {{"brbe", "encode", "BRBFCR_EL1", "MPRED=1"}, "has no field 'MPRED'"},
      {{"brbe", "check", "brbfcr_el1=0x7E00000000"}, "bits 22:17 of the low word"},
  };
  for (const auto& [words, says] : cases) {
    auto result = RunBrink(words);
    EXPECT_NE(result.status, 0) << words[1] << " " << words[2];
    EXPECT_THAT(result.out + result.err, HasSubstr(says)) << words[1] << " " << words[2];
  }
  for (const char* spelling : {"arm_brbe/mpred1/", "--branch-history"}) {
    auto result = RunBrink({"brbe", "diagnose", "--", spelling});
    EXPECT_EQ(result.status, 0) << result.err;
  }
}

}  // namespace
}  // namespace brink
