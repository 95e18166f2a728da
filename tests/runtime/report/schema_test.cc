// Every JSON line of the read side against its schema in docs/schema, and that all fields of the text are in it.
#include <filesystem>
#include <fstream>

#include "exact_recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink {
namespace {

using testing_support::RunBrink;
using testing_support::SharedData;
using testing_support::TempDir;

// Validates the lines of `file`; the answer is how many there are.
constexpr char kValidate[] = R"(
import json, sys, jsonschema
validator = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))
lines = 0
for line in open(sys.argv[2]):
    value = json.loads(line)
    errors = list(validator.iter_errors(value))
    if errors:
        sys.exit(f"line {lines + 1}: {errors[0].message} at {list(errors[0].path)}\n{line[:500]}")
    lines += 1
print(lines)
)";

class JsonSchemas : public testing::Test {
 protected:
  void SetUp() override {
    if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
    for (const char* name : {"skylake-y-lbr32.data", "arm-etm-kernel.data"}) {
      if (auto path = SharedData(std::string("perfdata/") + name)) recordings_.push_back(*path);
    }
    std::string source = testing_support::SourceDir() + "/examples/demo/demo.c";
    if (testing_support::Run({"gcc", "-O1", "-g", "-o", dir_.File("demo"), source}).status != 0) return;
    for (bool known : {true, false}) {
      const std::string output = dir_.File(known ? "known.data" : "unknown.data");
      auto counts = testing_report::RecordExactly({.command = {dir_.File("demo")}, .output = output, .windows = 20, .depth = 32, .predictions = known, .cycles = known});
      if (counts.ok()) recordings_.push_back(output);
    }
    if (recordings_.empty()) GTEST_SKIP() << "needs gcc and ptrace, or the shared recordings";
  }
  // Lines of the command's output that were checked.
  int Check(const std::string& schema, const std::vector<std::string>& words) {
    auto result = RunBrink(words);
    std::string all;
    for (const std::string& word : words) all += word + " ";
    EXPECT_EQ(result.status, 0) << all << result.err;
    std::ofstream(dir_.File("lines")) << result.out;
    auto checked = testing_support::Run({"/usr/bin/python3", "-c", kValidate, testing_support::SourceDir() + "/docs/schema/" + schema, dir_.File("lines")});
    EXPECT_EQ(checked.status, 0) << all << checked.err;
    return checked.status == 0 ? std::atoi(checked.out.c_str()) : 0;
  }

  TempDir dir_;
  std::vector<std::string> recordings_;
};

TEST_F(JsonSchemas, Report) {
  for (const std::string& recording : recordings_) {
    EXPECT_GE(Check("report.json", {"report", "-i", recording, "--json", "-n", "40", "-t", "branches,edges,functions,lines,calls,ranges,blocks,loops,mispredict,paths,stops"}), 2);
    EXPECT_GE(Check("report.json", {"report", "-i", recording, "--json", "-n", "40", "--quality"}), 2);
  }
}

TEST_F(JsonSchemas, Annotate) {
  for (const std::string& recording : recordings_) {
    if (!recording.starts_with(dir_.path())) continue;  // needs the program
    EXPECT_GE(Check("report.json", {"annotate", "-i", recording, "--json", "--all", "sum_large"}), 2);
  }
}

TEST_F(JsonSchemas, Script) {
  for (const std::string& recording : recordings_) {
    EXPECT_GE(Check("sample.json", {"script", "-i", recording, "--format", "json"}), 2);
    EXPECT_EQ(Check("recording.json", {"script", "-i", recording, "--format", "json", "--dump-header"}), 1);
  }
}

TEST_F(JsonSchemas, Diff) {
  for (const std::string& one : recordings_) {
    EXPECT_GE(Check("diff.json", {"diff", "--json", "-n", "40", "-t", "functions,branches,edges,lines", one, recordings_.back()}), 2);
  }
  EXPECT_GE(Check("diff.json", {"diff", "--json", "-n", "40", recordings_[0], recordings_[0], "--", recordings_[0], recordings_[0]}), 2);
}

}  // namespace
}  // namespace brink
