// Exports of walk recordings against perf2bolt and llvm-profgen reading the recording itself.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <tuple>
#include <unistd.h>

#include <absl/strings/str_format.h>
#include <gmock/gmock.h>

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

// No packaged perf2bolt reads T and R lines yet. So a reader made from their documentation (bolt/docs/profiles.md of LLVM 20 and
// later) turns them into lines that the packaged one reads, with the functions that nm knows.
class TraceLines {
 public:
  explicit TraceLines(const std::string& program) {
    std::istringstream symbols(testing_support::Run({"nm", "-S", "--defined-only", program}).out);
    for (std::string line; std::getline(symbols, line);) {
      unsigned long long start, size;
      char type;
      if (std::sscanf(line.c_str(), "%llx %llx %c", &start, &size, &type) == 3 && size && std::strchr("TtWw", type)) ends_[start] = start + size;
    }
  }

  // A line of either dialect; counts refusals in `errors`.
  void Read(const std::string& line, bool latest) {
    static const std::regex kLine("([TR]) ([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ([1-9][0-9]*)( [1-9][0-9]*)?");
    std::smatch part;
    if (!std::regex_match(line, part, kLine) || (!latest && (part[1] == "R" || part[6].matched))) {
      ++errors;
      return;
    }
    const uint64_t branch = std::stoull(part[2], nullptr, 16), start = std::stoull(part[3], nullptr, 16), end = std::stoull(part[4], nullptr, 16), count = std::stoull(part[5]);
    const uint64_t missed = part[6].matched ? std::stoull(part[6]) : 0;
    const bool no_branch = branch >= 0xfffffffffffffffd;  // only straight code: of unknown, outer or returned-to origin
    if (!no_branch) branches_[{branch, start}].first += count, branches_[{branch, start}].second += missed;
    if (end == ~uint64_t{0}) return;
    const bool inside = no_branch ? branch == ~uint64_t{0} : Function(branch) && Function(branch) == Function(start);
    ranges_[{!inside, start, end}] += count;
  }

  std::vector<std::string> OldLines(bool with_missed) const {
    std::vector<std::string> lines;
    for (const auto& [pair, n] : branches_) lines.push_back(absl::StrFormat("B %x %x %d %d", pair.first, pair.second, n.first, with_missed ? n.second : 0));
    for (const auto& [range, n] : ranges_) lines.push_back(absl::StrFormat("%c %x %x %d", std::get<0>(range) ? 'f' : 'F', std::get<1>(range), std::get<2>(range), n));
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  int errors = 0;

 private:
  uint64_t Function(uint64_t address) const {
    auto at = ends_.upper_bound(address);
    return at == ends_.begin() || address >= (--at)->second ? 0 : at->first;
  }
  std::map<uint64_t, uint64_t> ends_;
  std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, uint64_t>> branches_;
  std::map<std::tuple<bool, uint64_t, uint64_t>, uint64_t> ranges_;
};

TEST_P(Optimisers, NewBoltDialectsSayWhatTheOldOneSays) {
  Export({"-f", "bolt", "-i", data_, "-b", program_, "-o", dir_.File("old.pre")});
  const std::vector<std::string> old = SortedLines(dir_.File("old.pre"));
  ASSERT_GT(old.size(), 20u);
  for (const char* dialect : {"new", "latest"}) {
    const std::string file = dir_.File(dialect);
    Export({"-f", "bolt", "--bolt-dialect", dialect, "-i", data_, "-b", program_, "-o", file});
    TraceLines reader(program_);
    const std::vector<std::string> lines = SortedLines(file);
    for (const std::string& line : lines) reader.Read(line, std::string(dialect) == "latest");
    EXPECT_EQ(reader.errors, 0) << dialect;
    EXPECT_EQ(std::string(dialect) == "latest", std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return line[0] == 'R'; }));
    EXPECT_EQ(reader.OldLines(true), old) << dialect;
  }
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
