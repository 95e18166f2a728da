// Cycle counts and predictions of a recording, in the four combinations that the hardware can be set to: each gives the
// report that fits, and what was not recorded is unknown everywhere, never zero.
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
using testing::Not;
using testing_support::RunBrink;
using testing_support::TempDir;

struct Configuration {
  const char* name;
  bool predictions, cycles;
  const char* brbcr;  // the same, of BRBE: MPRED is bit 4, CC bit 3
};
constexpr Configuration kConfigurations[] = {{"flow", false, false, "0xC00123"},
                                             {"flow and prediction", true, false, "0xC00133"},
                                             {"flow and time", false, true, "0xC0012B"},
                                             {"all", true, true, "0xC0013B"}};

const std::set<std::string> kOfPredictions = {"mispredicted", "predicted", "mispredict_rate"};
const std::set<std::string> kOfCycles = {"mean_cycles", "cycles", "cycles_share", "min_cycles", "max_cycles"};

std::vector<json> Lines(const std::string& text) {
  std::vector<json> out;
  for (std::string_view line : Split(text, '\n')) {
    if (!line.empty()) out.push_back(json::parse(line));
  }
  return out;
}

class Configurations : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir();
    if (!testing_filter::BuildEveryKind(dir_->File("demo"))) return;
    for (const Configuration& c : kConfigurations) {
      auto counts = testing_report::RecordExactly(
          {.command = {dir_->File("demo")}, .output = dir_->File(c.name), .windows = 20, .depth = 64, .predictions = c.predictions, .cycles = c.cycles});
      if (!counts.ok()) return;
    }
    made_ = true;
  }
  static void TearDownTestSuite() { delete dir_; }
  void SetUp() override {
    if (!made_) GTEST_SKIP() << "needs gcc and ptrace";
  }

  // Intel: a recording of each configuration. BRBE: the recording of everything, through the model so configured.
  static std::vector<std::string> Input(const Configuration& c, bool brbe) {
    if (!brbe) return {"-i", dir_->File(c.name)};
    return {"-i", dir_->File("all"), "--brbe-model", std::string("numrec=64,brbfcr=0x7E0000,brbcr=") + c.brbcr};
  }
  static testing_support::ProcessResult Report(const Configuration& c, bool brbe, std::vector<std::string> more) {
    std::vector<std::string> words = {"report"};
    for (const std::string& word : Input(c, brbe)) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return RunBrink(words);
  }

  static TempDir* dir_;
  static bool made_;
};
TempDir* Configurations::dir_ = nullptr;
bool Configurations::made_ = false;

TEST_F(Configurations, WhatWasNotRecordedIsNullInEveryTable) {
  for (bool brbe : {false, true}) {
    for (const Configuration& c : kConfigurations) {
      SCOPED_TRACE(std::string(c.name) + (brbe ? " (BRBE)" : " (Intel)"));
      size_t rows = 0, measured = 0, assumed = 0;
      std::map<std::string, size_t> known, null;
      for (const char* table : {"branches", "functions", "edges", "blocks", "loops", "calls", "mispredict", "ranges"}) {
        auto result = Report(c, brbe, {"-t", table, "--json"});
        ASSERT_EQ(result.status, 0) << table << result.err;
        for (const json& line : Lines(result.out)) {
          if (line["schema"] == "brink.report.summary.v1") {
            EXPECT_EQ(line["unknown_prediction"] == line["branches"], !c.predictions);
            EXPECT_EQ(line["unknown_cycles"] == line["branches"], !c.cycles);
            continue;
          }
          ++rows;
          // The cost of a misprediction is measured where there are cycles, else an assumption that says so.
          if (line.contains("measured")) {
            measured += line["measured"] == "yes";
            assumed += line["measured"] == "assumed";
          }
          for (const auto& [key, value] : line.items()) ++(value.is_null() ? null : known)[key];
        }
      }
      EXPECT_GT(rows, 20u);
      for (const std::string& key : kOfPredictions) EXPECT_EQ(known[key] > 0, c.predictions && known[key] + null[key] > 0) << key;
      for (const std::string& key : kOfCycles) EXPECT_EQ(known[key] > 0, c.cycles && known[key] + null[key] > 0) << key;
      EXPECT_EQ(measured > 0, c.predictions && c.cycles);
      EXPECT_EQ(measured + assumed > 0, c.predictions);
      EXPECT_GT(known["mispredict_rate"] + null["mispredict_rate"], 0u);
      EXPECT_GT(known["mean_cycles"] + null["mean_cycles"], 0u);
    }
  }
}

TEST_F(Configurations, TheTextSaysWhatIsUnknown) {
  for (bool brbe : {false, true}) {
    for (const Configuration& c : kConfigurations) {
      SCOPED_TRACE(std::string(c.name) + (brbe ? " (BRBE)" : " (Intel)"));
      std::string overview = Report(c, brbe, {}).out;
      EXPECT_EQ(overview.find("predictions are unknown") == std::string::npos, c.predictions);
      EXPECT_EQ(overview.find("cycles are unknown") == std::string::npos, c.cycles);
      for (const auto& [field, is_known] : {std::pair("mispredict_rate", c.predictions), std::pair("mean_cycles", c.cycles)}) {
        std::vector<std::string_view> rows;
        const std::string column = Report(c, brbe, {"-t", "branches", "--fields", field}).out;
        for (std::string_view line : Split(column, '\n')) {
          line = Trim(line);
          if (line == "-" || (!line.empty() && std::isdigit(static_cast<unsigned char>(line[0])))) rows.push_back(line);
        }
        EXPECT_GT(rows.size(), 2u) << column;
        EXPECT_EQ(static_cast<size_t>(std::count(rows.begin(), rows.end(), "-")) == rows.size(), !is_known) << column;
      }
      std::string mispredict = Report(c, brbe, {"--mispredict"}).out;
      if (c.predictions) {
        EXPECT_THAT(mispredict, Not(HasSubstr("does not know predictions")));
        EXPECT_THAT(mispredict, HasSubstr("main"));
      } else {
        EXPECT_THAT(mispredict, HasSubstr("does not know predictions"));
      }
      // Control flow is the same in all four.
      EXPECT_THAT(Report(c, brbe, {"-t", "ranges"}).out, HasSubstr("demo"));
    }
  }
}

// One recording under four settings of BRBE: what a setting keeps has the same value in each.
TEST_F(Configurations, WhatIsRecordedDoesNotDependOnTheRest) {
  std::map<std::string, std::map<std::string, json>> rows;  // by branch, then by field and setting
  for (const Configuration& c : kConfigurations) {
    for (const json& line : Lines(Report(c, true, {"-t", "branches", "--json"}).out)) {
      if (line["schema"] != "brink.report.branches.v1") continue;
      auto& row = rows[line["from_address"].get<std::string>() + " " + line["to_address"].get<std::string>()];
      row["count"].push_back(line["count"]);
      if (c.predictions) row["mispredict_rate"].push_back(line["mispredict_rate"]);
      if (c.cycles) row["mean_cycles"].push_back(line["mean_cycles"]);
    }
  }
  ASSERT_GT(rows.size(), 3u);
  for (const auto& [branch, fields] : rows) {
    for (const auto& [field, values] : fields) {
      ASSERT_EQ(values.size(), field == "count" ? 4u : 2u) << branch << " " << field;
      EXPECT_EQ(std::set<json>(values.begin(), values.end()).size(), 1u) << branch << " " << field << " " << values;
    }
  }
}

// CC and MPRED set in one copy only are off: BRBE needs both.
TEST_F(Configurations, OneCopyOfABitIsNotEnough) {
  for (const char* el2 : {"brbcr_el2=0", "brbcr_el2=0x10", "brbcr_el2=0x8"}) {
    json summary = Lines(RunBrink({"report", "-i", dir_->File("all"), "--json", "--brbe-model", std::string("numrec=64,brbfcr=0x7E0000,brbcr=0xC0013B,") + el2}).out)[0];
    EXPECT_EQ(summary["unknown_prediction"] == summary["branches"], std::string_view(el2) != "brbcr_el2=0x10") << el2;
    EXPECT_EQ(summary["unknown_cycles"] == summary["branches"], std::string_view(el2) != "brbcr_el2=0x8") << el2;
  }
}

}  // namespace
}  // namespace brink
