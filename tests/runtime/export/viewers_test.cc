// Formats of other tools against second implementations: protoc, JSON schemas, perf.
#include <fstream>
#include <gmock/gmock.h>
#include <regex>
#include <set>
#include <sstream>

#include "base/fd.h"
#include "programs.h"
#include "support/features.h"
#include "support/status_matchers.h"

namespace brink::export_test {
namespace {

using testing::HasSubstr;

// What of pprof's format brink writes, from the numbers that the format documents.
constexpr const char* kProto = R"(
syntax = "proto3";
message Profile {
  repeated ValueType sample_type = 1; repeated Sample sample = 2; repeated Mapping mapping = 3; repeated Location location = 4;
  repeated Function function = 5; repeated string string_table = 6; int64 drop_frames = 7; int64 keep_frames = 8; int64 time_nanos = 9;
  int64 duration_nanos = 10; ValueType period_type = 11; int64 period = 12; repeated int64 comment = 13; int64 default_sample_type = 14;
}
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample { repeated uint64 location_id = 1; repeated int64 value = 2; repeated Label label = 3; }
message Label { int64 key = 1; int64 str = 2; int64 num = 3; int64 num_unit = 4; }
message Mapping {
  uint64 id = 1; uint64 memory_start = 2; uint64 memory_limit = 3; uint64 file_offset = 4; int64 filename = 5; int64 build_id = 6;
  bool has_functions = 7; bool has_filenames = 8; bool has_line_numbers = 9; bool has_inline_frames = 10;
}
message Location { uint64 id = 1; uint64 mapping_id = 2; uint64 address = 3; repeated Line line = 4; bool is_folded = 5; }
message Line { uint64 function_id = 1; int64 line = 2; int64 column = 3; }
message Function { uint64 id = 1; int64 name = 2; int64 system_name = 3; int64 filename = 4; int64 start_line = 5; }
)";

constexpr const char* kValidate =
    "import json,sys,jsonschema\n"
    "lines=open(sys.argv[2]).read()\n"
    "values=[json.loads(l) for l in lines.splitlines()] if sys.argv[3]=='lines' else [json.loads(lines)]\n"
    "v=jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))\n"
    "[v.validate(value) for value in values]\n"
    "print(len(values))\n";

std::multiset<std::string> LinesOf(const std::string& text) {
  std::istringstream lines(text);
  std::multiset<std::string> out;
  for (std::string line; std::getline(lines, line);) out.insert(line);
  return out;
}

class Viewers : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS("source.walk");
    program_ = Program("frames");
    if (program_.empty()) GTEST_SKIP() << "needs gcc";
    data_ = Record(dir_, "chains.data", {"--source", "walk", "-g"}, {program_, "300"});
  }
  std::string Write(const std::string& format) {
    Export({"-f", format, "-i", data_, "-o", dir_.File(format)});
    return dir_.File(format);
  }
  uint64_t Samples() {
    ProcessResult run = testing_support::RunBrink({"script", "-i", data_, "-F", "pid"});
    return static_cast<uint64_t>(std::count(run.out.begin(), run.out.end(), '\n'));
  }
  TempDir dir_;
  std::string program_, data_;
};

TEST_F(Viewers, ProtocDecodesThePprofProfile) {
  if (testing_support::Run({"protoc", "--version"}).status != 0) GTEST_SKIP() << "needs protoc (package protobuf-compiler)";
  std::ofstream(dir_.File("profile.proto")) << kProto;
  ProcessResult run = testing_support::Run({"/bin/sh", "-c", "gzip -dc '" + Write("pprof") + "' | protoc --proto_path='" + dir_.path() + "' --decode=Profile profile.proto"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, testing::Not(testing::ContainsRegex("\n *[0-9]+: "))) << "fields that the format does not have";
  for (const char* text : {"string_table: \"step\"", "string_table: \"nanoseconds\"", "program.c\"", "has_functions: true"}) EXPECT_THAT(run.out, HasSubstr(text));
  // The first value of each sample is a count: they sum up to the samples of the recording.
  uint64_t sum = 0;
  const std::regex first("sample \\{[^}]*?value: ([0-9]+)");
  for (std::sregex_iterator it(run.out.begin(), run.out.end(), first), end; it != end; ++it) sum += std::stoull((*it)[1]);
  EXPECT_EQ(sum, Samples());
}

TEST_F(Viewers, JsonFormatsFollowTheirSchemas) {
  if (testing_support::Run({"/usr/bin/python3", "-c", "import jsonschema"}).status != 0) GTEST_SKIP() << "needs python3-jsonschema";
  for (const char* format : {"perfetto", "speedscope", "firefox", "json"}) {
    const bool lines = std::string(format) == "json";
    const std::string schema = testing_support::SourceDir() + "/docs/schema/" + (lines ? "export" : format) + ".json";
    ProcessResult run = testing_support::Run({"/usr/bin/python3", "-c", kValidate, schema, Write(format), lines ? "lines" : "one"});
    EXPECT_EQ(run.status, 0) << format << "\n" << run.err;
  }
}

TEST_F(Viewers, FoldedStacksCountEverySample) {
  std::ifstream lines(Write("folded"));
  uint64_t sum = 0;
  bool deep = false;
  for (std::string line; std::getline(lines, line);) {
    sum += std::stoull(line.substr(line.rfind(' ') + 1));
    deep |= line.find(";main;walk;step") != std::string::npos;
  }
  EXPECT_EQ(sum, Samples());
  EXPECT_TRUE(deep) << "frame pointers give the callers";
}

TEST_F(Viewers, PerfReadsTheRecordingWrittenAgain) {
  if (testing_support::Run({"perf", "--version"}).status != 0) GTEST_SKIP() << "needs perf (package linux-perf)";
  Export({"-f", "perfdata", "-i", data_, "-o", dir_.File("again.data")});
  for (const char* fields : {"ip,brstack", "comm,pid,tid,time,period,event"}) {
    ProcessResult before = testing_support::Run({"perf", "script", "-i", data_, "-F", fields}), after = testing_support::Run({"perf", "script", "-i", dir_.File("again.data"), "-F", fields});
    EXPECT_EQ(after.status, 0) << after.err;
    EXPECT_EQ(after.err, "") << "in order, whatever the order of the recording was";
    // Samples that came later than their round are in another place then: what counts is that each is there.
    EXPECT_TRUE(LinesOf(after.out) == LinesOf(before.out)) << fields;
    EXPECT_GT(after.out.size(), 1000u);
  }
}

TEST_F(Viewers, HotspotsParserOpensTheRecording) {
  const std::string parser = "/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser";
  if (access(parser.c_str(), X_OK) != 0) GTEST_SKIP() << "needs hotspot (package hotspot)";
  ProcessResult run = testing_support::Run({parser, "--input", data_, "--output", dir_.File("parsed")});
  EXPECT_EQ(run.status, 0) << run.err;
  auto parsed = ReadFile(dir_.File("parsed"));
  ASSERT_THAT(parsed, testing_support::IsOk());
  EXPECT_THAT(*parsed, HasSubstr("QPERFSTREAM"));
  EXPECT_THAT(*parsed, HasSubstr("walk")) << "symbols of the program are in its stream";
}

}  // namespace
}  // namespace brink::export_test
