// brink report and annotate on an exact recording of the demo program, and on the shared recordings.
#include <cmath>
#include <filesystem>
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
using testing::Not;
using testing_support::RunBrink;
using testing_support::SharedData;
using testing_support::TempDir;

std::vector<json> Lines(const std::string& text) {
  std::vector<json> out;
  for (std::string_view line : Split(text, '\n')) {
    if (!line.empty()) out.push_back(json::parse(line));
  }
  return out;
}

// Rows of one table, without the summary line.
std::vector<json> Rows(const std::string& text) {
  auto lines = Lines(text);
  std::erase_if(lines, [](const json& line) { return line["schema"] == "brink.report.summary.v1"; });
  return lines;
}

// Rounds of the demo program: the windows end it, not its own end before there are enough of them.
constexpr char kEndless[] = "1000000000";

class DemoRecording : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir();
    std::string source = testing_support::SourceDir() + "/examples/demo/demo.c";
    if (testing_support::Run({"gcc", "-O1", "-g", "-o", dir_->File("demo"), source}).status != 0) return;
    auto counts = testing_report::RecordExactly({.command = {dir_->File("demo"), kEndless}, .output = dir_->File("demo.data"), .windows = 40, .depth = 64});
    if (counts.ok()) counts_ = *counts;
    else why_ = counts.status().ToString();
  }
  static void TearDownTestSuite() { delete dir_; }
  void SetUp() override {
    if (counts_.samples == 0) GTEST_SKIP() << "needs gcc and ptrace: " << why_;
  }
  testing_support::ProcessResult Brink(std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"-i", dir_->File("demo.data")});
    return RunBrink(words);
  }
  // Line of demo.c that holds `text`.
  static int LineOf(const std::string& text) {
    std::ifstream in(testing_support::SourceDir() + "/examples/demo/demo.c");
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.find(text) != std::string::npos) return number;
    }
    return 0;
  }

  static TempDir* dir_;
  static testing_report::ExactCounts counts_;
  static std::string why_;
};
TempDir* DemoRecording::dir_ = nullptr;
testing_report::ExactCounts DemoRecording::counts_;
std::string DemoRecording::why_;

TEST_F(DemoRecording, SummaryHasTheCountsOfTheRecorder) {
  auto result = Brink({"report", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  json summary = Lines(result.out)[0];
  EXPECT_EQ(summary["samples"], counts_.samples);
  EXPECT_EQ(summary["branches"], counts_.branches);
  EXPECT_EQ(summary["unknown_prediction"], 0);
  EXPECT_TRUE(summary["contiguous"]);
  for (auto& [rule, count] : summary["rules"].items()) EXPECT_EQ(count, 0) << rule << ": exact stacks break no rule";
}

TEST_F(DemoRecording, BranchCountsAddUp) {
  auto result = Brink({"report", "-t", "branches", "--json"});
  uint64_t count = 0, mispredicted = 0;
  for (const json& row : Rows(result.out)) {
    count += row["count"].get<uint64_t>();
    mispredicted += row["mispredicted"].get<uint64_t>();
  }
  EXPECT_EQ(count, counts_.branches);
  EXPECT_EQ(mispredicted, counts_.mispredicted);
}

TEST_F(DemoRecording, TheHardBranchIsFoundWithItsLine) {
  auto result = Brink({"report", "--mispredict", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  auto rows = Rows(result.out);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0]["line"], "demo.c:" + std::to_string(LineOf("/* HARD")));
  EXPECT_EQ(rows[0]["kind"], "cond");
  EXPECT_NEAR(rows[0]["taken_ratio"].get<double>(), 0.5, 0.15);
  EXPECT_THAT(rows[0]["advice"].get<std::string>(), HasSubstr("branchless"));
}

TEST_F(DemoRecording, AddressesAgreeWithAddr2line) {
  auto rows = Rows(Brink({"report", "-t", "branches", "--json", "--dso", "demo"}).out);
  ASSERT_FALSE(rows.empty());
  size_t compared = 0;
  for (const json& row : rows) {
    if (row["from_object"] != "demo" || row["from_line"].is_null()) continue;
    auto theirs = testing_support::Run({"addr2line", "-f", "-e", dir_->File("demo"), row["from_address"].get<std::string>()});
    if (theirs.status != 0) GTEST_SKIP() << "needs addr2line";
    auto lines = Split(theirs.out, '\n');
    EXPECT_EQ(row["from_symbol"], std::string(lines[0]));
    std::string place(lines[1].substr(lines[1].rfind('/') + 1));
    EXPECT_EQ(row["from_line"], place.substr(0, place.find(' ')));
    ++compared;
  }
  EXPECT_GE(compared, 3u);
}

TEST_F(DemoRecording, IndirectCallHasThreeTargets) {
  auto rows = Rows(Brink({"report", "-t", "calls", "--json"}).out);
  std::map<std::string, double> shares;
  for (const json& row : rows) {
    if (row["site"].get<std::string>().starts_with("dispatch")) shares[row["target"]] += row["share"].get<double>();
  }
  if (shares.empty()) GTEST_SKIP() << "no window met dispatch()";
  double sum = 0;
  for (auto& [target, share] : shares) {
    EXPECT_THAT(target, testing::AnyOf("mix_add", "mix_xor", "mix_rot"));
    sum += share;
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
}

TEST_F(DemoRecording, FiltersAndLimits) {
  auto some = Rows(Brink({"report", "-t", "branches", "--json", "-n", "3"}).out);
  EXPECT_EQ(some.size(), 3u);
  for (const json& row : Rows(Brink({"report", "-t", "branches", "--json", "--symbol", "sum_large"}).out)) {
    EXPECT_THAT(row["from_symbol"].get<std::string>() + row["to_symbol"].get<std::string>(), HasSubstr("sum_large"));
  }
  for (const json& row : Rows(Brink({"report", "-t", "branches", "--json", "--where", "kind == cond"}).out)) EXPECT_EQ(row["kind"], "cond");
  EXPECT_EQ(Lines(Brink({"report", "--json", "--pid", "1"}).out)[0]["samples"], 0);
  for (const json& row : Rows(Brink({"report", "-t", "branches", "--json", "--percent-limit", "10"}).out)) EXPECT_GE(row["share"].get<double>(), 0.1);
}

TEST_F(DemoRecording, RecordFiltersEndContiguityAndRangesAreRefused) {
  auto result = Brink({"report", "-t", "ranges", "--json", "--where", "kind == cond"});
  auto lines = Lines(result.out);
  EXPECT_FALSE(lines[0]["contiguous"]);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_THAT(Brink({"report", "-t", "ranges", "--where", "kind == cond"}).out, HasSubstr("record with -j any"));
}

TEST_F(DemoRecording, UnknownPredictionsAreNotZero) {
  auto counts = testing_report::RecordExactly({.command = {dir_->File("demo"), kEndless}, .output = dir_->File("plain.data"), .windows = 3, .predictions = false, .cycles = false});
  ASSERT_THAT(counts, testing_support::IsOk());
  auto result = RunBrink({"report", "-i", dir_->File("plain.data"), "-t", "branches", "--json"});
  auto rows = Rows(result.out);
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    EXPECT_TRUE(row["mispredict_rate"].is_null());
    EXPECT_TRUE(row["mean_cycles"].is_null());
    EXPECT_TRUE(row["mispredicted"].is_null());
  }
  EXPECT_THAT(RunBrink({"report", "-i", dir_->File("plain.data"), "--mispredict"}).out, HasSubstr("does not know predictions"));
}

TEST_F(DemoRecording, AnnotateCountsAgreeWithTheBranches) {
  auto annotated = Lines(Brink({"annotate", "--json", "--all", "sum_large"}).out);
  ASSERT_FALSE(annotated.empty());
  std::map<std::string, uint64_t> taken;
  for (const json& line : annotated) {
    if (!line["taken"].is_null() && line["taken"] > 0) taken[line["address"]] = line["taken"];
  }
  std::map<std::string, uint64_t> expected;
  for (const json& row : Rows(Brink({"report", "-t", "branches", "--json"}).out)) {
    if (row["from_symbol"] == "sum_large") expected[row["from_address"]] += row["count"].get<uint64_t>();
  }
  EXPECT_EQ(taken, expected);
  std::string text = Brink({"annotate", "sum_large"}).out;
  EXPECT_THAT(text, HasSubstr("HARD: half of the values"));
  EXPECT_THAT(text, HasSubstr("taken "));
}

TEST_F(DemoRecording, AnnotatedAssemblyIsThatOfObjdump) {
  auto objdump = testing_support::Run({"objdump", "-d", "--no-show-raw-insn", "-M", "intel", "--disassemble=sum_large", dir_->File("demo")});
  if (objdump.status != 0) GTEST_SKIP() << "needs objdump";
  size_t compared = 0;
  for (const json& line : Lines(Brink({"annotate", "--json", "sum_large"}).out)) {
    std::string address = line["address"].get<std::string>().substr(2) + ":";
    std::string mnemonic = line["text"].get<std::string>();
    mnemonic = mnemonic.substr(0, mnemonic.find(' '));
    size_t at = objdump.out.find(address);
    ASSERT_NE(at, std::string::npos) << address;
    std::string theirs = objdump.out.substr(at, objdump.out.find('\n', at) - at);
    if (mnemonic == "jnb" || mnemonic == "jnz" || mnemonic == "jz" || mnemonic == "jb" || mnemonic == "jnbe" || mnemonic == "jbe") continue;  // two spellings
    EXPECT_THAT(theirs, HasSubstr(mnemonic));
    ++compared;
  }
  EXPECT_GT(compared, 5u);
}

TEST_F(DemoRecording, WrongUseIsExplained) {
  auto result = Brink({"report", "-t", "branchs"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'branches'?"));
  EXPECT_EQ(Brink({"report", "-t", "branches", "--sort", "cuont"}).status, 2);
  EXPECT_EQ(Brink({"annotate", "sum_lage"}).status, 1);
  EXPECT_THAT(Brink({"annotate", "sum_lage"}).err, HasSubstr("sum_large"));
}

TEST_F(DemoRecording, PerfSymbolSortGivesEdges) {
  auto rows = Rows(Brink({"report", "--json", "--sort", "symbol_from,symbol_to"}).out);
  uint64_t sum = 0;
  for (const json& row : rows) {
    EXPECT_EQ(row["schema"], "brink.report.edges.v1");
    sum += row["count"].get<uint64_t>();
  }
  EXPECT_EQ(sum, counts_.branches);
}

// The page's data is one JSON text in a script element; nothing else in the page may come from names or sources.
TEST_F(DemoRecording, HtmlPageIsWholeAndLoadsNothing) {
  std::string page = dir_->File("page.html");
  ASSERT_EQ(Brink({"report", "--html", page}).status, 0);
  std::ifstream in(page);
  std::string html((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  size_t start = html.find(open) + open.size();
  json data = json::parse(html.substr(start, html.find('<', start) - start));
  EXPECT_EQ(data["summary"]["branches"], counts_.branches);
  bool found = false;
  for (const json& function : data["functions"]) {
    if (function["name"] != "sum_large") continue;
    found = true;
    EXPECT_FALSE(function["arcs"].empty());
    EXPECT_THAT(function["source"].dump(), HasSubstr("HARD"));
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(data["flame"][1], counts_.samples);
}

TEST_F(DemoRecording, RepairOfACompleteRecordingChangesNothing) {
  auto result = Brink({"report", "--repair", "--json", "-n", "1"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("nothing to repair"));
}

struct Golden {
  const char* file;
  uint64_t samples, entries, zeros, distinct, mispredicted;
};

class SharedRecordings : public testing::TestWithParam<Golden> {};

// Numbers of the recordings' own README; distinct and mispredicted are as recorded, so duplicates count in.
TEST_P(SharedRecordings, GoldenNumbers) {
  auto path = SharedData(std::string("perfdata/") + GetParam().file);
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  auto lines = Lines(RunBrink({"report", "-i", *path, "-t", "branches", "--json", "--fields", "count,mispredicted"}).out);
  ASSERT_FALSE(lines.empty());
  const json& summary = lines[0];
  EXPECT_EQ(summary["samples"], GetParam().samples);
  EXPECT_EQ(summary["entries"], GetParam().entries);
  EXPECT_EQ(summary["rules"]["zero_entry"], GetParam().zeros);
  uint64_t dropped = 0, mispredicted = 0, count = 0;
  for (const char* rule : {"zero_entry", "half_entry", "wrong_path", "duplicate_newest"}) dropped += summary["rules"][rule].get<uint64_t>();
  for (size_t i = 1; i < lines.size(); ++i) {
    count += lines[i]["count"].get<uint64_t>();
    if (!lines[i]["mispredicted"].is_null()) mispredicted += lines[i]["mispredicted"].get<uint64_t>();
  }
  EXPECT_EQ(count, GetParam().entries - dropped);
  EXPECT_LE(mispredicted, GetParam().mispredicted);
  EXPECT_GE(mispredicted + summary["rules"]["duplicate_newest"].get<uint64_t>(), GetParam().mispredicted);
}

INSTANTIATE_TEST_SUITE_P(Perf, SharedRecordings,
                         testing::Values(Golden{"skylake-lbr32.data", 3740, 119424, 0, 13, 5}, Golden{"skylake-y-lbr32.data", 13, 416, 29, 221, 21},
                                         Golden{"arm-etm-hwindex.data", 5, 116, 0, 74, 0}, Golden{"arm-etm-kernel.data", 24, 1445, 0, 495, 0},
                                         Golden{"sandybridge-lbr16-callchain.data", 923, 14768, 0, 6810, 880},
                                         Golden{"sandybridge-lbr16-zeros.data", 1856, 29696, 296, 8629, 1716}),
                         [](const auto& info) { return "File" + std::to_string(info.index); });

TEST(SharedRecordings, ForeignKernelAndVdsoAreNotNamedByThisHost) {
  auto path = SharedData("perfdata/sandybridge-lbr16-callchain.data");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  for (const json& row : Rows(RunBrink({"report", "-i", *path, "-t", "functions", "--json"}).out)) {
    if (row["object"] != "[kernel]" && row["object"] != "[vdso]") continue;
    EXPECT_EQ(row["origin"], "none") << row;
  }
}

// The whole command on recordings that were cut: an answer and a status, never a signal or a hang. (The reader alone is cut at
// every 64 bytes in unit_perfdata.)
TEST(Recordings, CutAnywhereAreReadAsFarAsTheyGo) {
  auto path = SharedData("perfdata");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  TempDir dir;
  size_t cuts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*path)) {
    if (entry.path().extension() != ".data") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    for (uint64_t part = 1; part < 8; ++part) {
      std::ofstream(dir.File("cut.data"), std::ios::binary) << whole.substr(0, whole.size() * part / 8 / 64 * 64);
      auto result = RunBrink({"report", "-i", dir.File("cut.data"), "-t", "branches,functions,loops", "--json"});
      EXPECT_TRUE(result.status == 0 || result.status == 1 || result.status == 3) << entry.path() << " " << part << ": " << result.status << result.err;
      EXPECT_TRUE(result.status != 1 || !result.err.empty());
      for (const json& line : Lines(result.out)) EXPECT_TRUE(line.contains("schema"));
      ++cuts;
    }
  }
  EXPECT_GE(cuts, 42u);
}

TEST(Recordings, WithoutBranchStacksAreRefusedWithAdvice) {
  auto path = SharedData("perfdata/nobranch");
  if (!path) GTEST_SKIP() << "needs the shared recordings";
  size_t refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*path)) {
    auto result = RunBrink({"report", "-i", entry.path()});
    EXPECT_NE(result.status, 139);
    EXPECT_LT(result.status, 128) << entry.path();
    if (result.err.find("without branch stacks; record with brink record") != std::string::npos) ++refused;
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace brink
