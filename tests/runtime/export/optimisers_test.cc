// Exports of walk recordings against perf2bolt and llvm-profgen reading the recording itself.
#include <fstream>
#include <gmock/gmock.h>
#include <sstream>
#include <unistd.h>

#include "base/fd.h"
#include "programs.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink::export_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Optimisers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    program_ = Program(GetParam());
    if (program_.empty()) GTEST_SKIP() << "needs gcc, and for lld clang-19 and lld-19";
    if (testing_support::Run({"perf", "--version"}).status != 0) GTEST_SKIP() << "needs perf (package linux-perf)";
    data_ = Record(dir_, "walk.data", {"--source", "walk"}, {program_, "700"});
  }

  // As design says it is to be judged: status 0, something written, and hardly a trace lost.
  void Perf2Bolt(const std::vector<std::string>& input, const std::string& output, bool expect_good) {
    std::vector<std::string> words = {kPerf2Bolt};
    words.insert(words.end(), input.begin(), input.end());
    words.insert(words.end(), {"-o", output, program_});
    ProcessResult run = testing_support::Run(words);
    const std::string text = run.out + run.err;
    ASSERT_EQ(run.status, 0) << text;
    if (!expect_good) return;
    EXPECT_GT(NumberIn(text, "wrote ([0-9]+) objects"), 0) << text;
    EXPECT_LT(NumberIn(text, "ut of range traces involving unknown regions: [0-9]+ \\(([0-9.]+)%"), 1) << text;
    EXPECT_LT(NumberIn(text, "traces mismatching disassembled function contents: [0-9]+ \\(([0-9.]+)%"), 1) << text;
  }

  std::string Profgen(const std::string& input) {
    ProcessResult run = testing_support::Run({kProfgen, input, "--binary=" + program_, "--output=" + dir_.File("out.prof"), "--format=text"});
    EXPECT_EQ(run.status, 0) << run.err;
    auto text = ReadFile(dir_.File("out.prof"));
    return text.ok() ? *text : "";
  }

  TempDir dir_;
  std::string program_, data_;
};

TEST_P(Optimisers, Perf2BoltCountsTheSameFromBoth) {
  if (access(kPerf2Bolt, X_OK) != 0) GTEST_SKIP() << "needs perf2bolt (package bolt-19)";
  Export({"-f", "bolt", "-i", data_, "-b", program_, "-o", dir_.File("walk.pre")});
  Perf2Bolt({"-pa", "-p", dir_.File("walk.pre")}, dir_.File("export.fdata"), true);
  Perf2Bolt({"-p", data_}, dir_.File("recording.fdata"), false);
  std::vector<std::string> exported = SortedLines(dir_.File("export.fdata")), direct = SortedLines(dir_.File("recording.fdata"));
  ASSERT_GT(exported.size(), 5u);
  if (std::string(GetParam()) == "lld") {
    // Its first two segments share a file page: perf2bolt drops every range of the recording. The export must not.
    EXPECT_LT(direct.size(), exported.size());
    return;
  }
  EXPECT_EQ(exported, direct);
}

TEST_P(Optimisers, TheExportIsWhatTheRecordingHolds) {
  ProcessResult run = Export({"-f", "bolt", "-i", data_, "-b", program_, "-o", dir_.File("walk.pre")});
  std::ifstream lines(dir_.File("walk.pre"));
  uint64_t branches = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, from, to;
    uint64_t count = 0;
    words >> kind >> from >> to >> count;
    if (kind == "B") branches += count;
  }
  EXPECT_EQ(branches, CountEntries(data_, program_).inside) << run.err;
}

TEST_P(Optimisers, ProfgenMakesOneProfileOfThreeForms) {
  if (access(kProfgen, X_OK) != 0) GTEST_SKIP() << "needs llvm-profgen-19 (package llvm-19)";
  Export({"-f", "profgen", "-i", data_, "-b", program_, "-o", dir_.File("stacks")});
  Export({"-f", "profgen-unsymbolized", "-i", data_, "-b", program_, "-o", dir_.File("counts")});
  const std::string direct = Profgen("--perfdata=" + data_);
  EXPECT_THAT(direct, HasSubstr("step:"));
  EXPECT_EQ(Profgen("--perfscript=" + dir_.File("stacks")), direct);
  EXPECT_EQ(Profgen("--unsymbolized-profile=" + dir_.File("counts")), direct);
}

INSTANTIATE_TEST_SUITE_P(Programs, Optimisers, testing::Values("pie", "fixed", "lld"), [](const auto& p) { return std::string(p.param); });

class Exports : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS("source.walk"); }
  TempDir dir_;
};

TEST_F(Exports, TwoProcessesOfOneProgramAtOnceLoseNothing) {
  const std::string program = Program("pie");
  if (program.empty()) GTEST_SKIP() << "needs gcc";
  const std::string data = Record(dir_, "two.data", {"--source", "walk"}, {"/bin/sh", "-c", program + " 400 & " + program + " 400; wait"});
  const EntryCount entries = CountEntries(data, program);
  ASSERT_EQ(entries.processes, 2u);
  ProcessResult run = Export({"-f", "bolt", "-i", data, "-b", program, "-o", dir_.File("two.pre")});
  EXPECT_EQ(NumberIn(run.err, ": ([0-9]+) branches,"), static_cast<double>(entries.inside)) << run.err;
  EXPECT_EQ(std::max(0.0, NumberIn(run.err, "([0-9]+) branches in other files")), static_cast<double>(entries.outside)) << run.err;
}

TEST_F(Exports, ContextsPassWithoutABogusTrace) {
  const std::string program = Program("frames");
  if (program.empty()) GTEST_SKIP() << "needs gcc";
  if (access(kProfgen, X_OK) != 0) GTEST_SKIP() << "needs llvm-profgen-19 (package llvm-19)";
  const std::string data = Record(dir_, "chains.data", {"--source", "walk", "-g"}, {program, "700"});
  Export({"-f", "profgen", "--cs", "-i", data, "-b", program, "-o", dir_.File("stacks")});
  ProcessResult run = testing_support::Run({kProfgen, "--perfscript=" + dir_.File("stacks"), "--binary=" + program, "--output=" + dir_.File("cs.prof"), "--format=text", "--gen-cs-nested-profile=0", "--show-detailed-warning"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("ogus")));
  auto profile = ReadFile(dir_.File("cs.prof"));
  ASSERT_THAT(profile, testing_support::IsOk());
  EXPECT_THAT(*profile, HasSubstr("[main:")) << "contexts are in brackets";
  EXPECT_THAT(*profile, HasSubstr("@ walk"));
}

TEST_F(Exports, CountsKeptWhileRecordingGiveTheSameProfile) {
  const std::string program = Program("pie");
  if (program.empty()) GTEST_SKIP() << "needs gcc";
  const std::string counts = Record(dir_, "walk.agg", {"--source", "walk", "--aggregate"}, {program, "700"});
  Export({"-f", "profgen-unsymbolized", "-i", counts, "-b", program, "-o", dir_.File("counts")});
  ProcessResult merged = testing_support::RunBrink({"merge", "-w", "records", "-o", dir_.File("twice.agg"), counts, counts});
  EXPECT_EQ(merged.status, 0) << merged.err;
  Export({"-f", "profgen-unsymbolized", "-i", dir_.File("twice.agg"), "-b", program, "-o", dir_.File("twice")});
  std::vector<std::string> once = SortedLines(dir_.File("counts")), twice = SortedLines(dir_.File("twice"));
  ASSERT_EQ(once.size(), twice.size());
  ASSERT_GT(once.size(), 20u);
  for (size_t i = 0; i < once.size(); ++i) {
    const size_t colon = once[i].find(':');
    if (colon == std::string::npos) continue;  // the number of rows
    EXPECT_EQ(twice[i].substr(0, colon), once[i].substr(0, colon));
    EXPECT_EQ(std::stoull(twice[i].substr(colon + 1)), 2 * std::stoull(once[i].substr(colon + 1)));
  }
  if (access(kPerf2Bolt, X_OK) != 0) return;
  Export({"-f", "bolt", "-i", counts, "-b", program, "-o", dir_.File("pre")});
  ProcessResult bolt = testing_support::Run({kPerf2Bolt, "-pa", "-p", dir_.File("pre"), "-o", dir_.File("fdata"), program});
  EXPECT_EQ(bolt.status, 0) << bolt.err;
  EXPECT_GT(NumberIn(bolt.out + bolt.err, "wrote ([0-9]+) objects"), 0) << bolt.out << bolt.err;
}

}  // namespace
}  // namespace brink::export_test
