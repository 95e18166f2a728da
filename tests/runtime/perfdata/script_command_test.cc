// `brink script` as a program: equal to perf's text, and what it says about what it cannot read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/fd.h"
#include "recording.h"
#include "support/process.h"
#include "support/status_matchers.h"

namespace brink::perfdata {
namespace {

using testing::HasSubstr;
using testing_support::IsOk;
using testing_support::RunBrink;
using testing_support::SharedData;
using testing_support::TempDir;

testing_support::ProcessResult Execute(const std::vector<std::string>& argv) { return testing_support::Run(argv); }

class GoldenText : public testing::TestWithParam<const char*> {};

TEST_P(GoldenText, EqualsPerfsByteForByte) {
  auto recording = SharedData("perfdata/" + std::string(GetParam()) + ".data");
  auto golden = SharedData("perf61-brstack/" + std::string(GetParam()) + ".txt.gz");
  if (!recording || !golden) GTEST_SKIP() << "needs the shared recordings";
  auto expected = Execute({"gzip", "-dc", *golden});
  ASSERT_EQ(expected.status, 0);
  auto ours = RunBrink({"script", "-i", *recording, "-F", "ip,brstack"});
  EXPECT_EQ(ours.status, 0) << ours.err;
  EXPECT_EQ(ours.err, "");
  EXPECT_TRUE(ours.out == expected.out);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenText,
                         testing::Values("skylake-lbr32", "arm-etm-kernel", "skylake-y-lbr32", "arm-etm-hwindex", "sandybridge-lbr16-callchain",
                                         "sandybridge-lbr16-zeros"));

// Every kind, flag and field at once, against the perf of this machine.
std::string WriteVariety(const TempDir& dir, bool chain, int compression) {
  EventAttr attr = CpuClockAttr();
  if (chain) attr.sample_type |= kSampleCallchain;
  attr.sample_type |= kSampleAddr | kSampleWeight;
  WriterOptions options = OneEvent(attr);
  options.compression_level = compression;
  options.events.push_back(options.events[0]);
  options.events[1].attr.config = 1;
  options.events[1].name = "a-much-longer-name:u";
  const std::string path = dir.File("variety.data");
  auto writer = *Writer::Create(*OpenFileSink(path), options);
  RecordBatch batch(*writer);
  auto add = [&](auto encode) { EXPECT_THAT(batch.Add(encode), IsOk()); };
  SampleId id{.pid = 100, .tid = 100, .time = 10, .id = writer->id()};
  add([&](auto out) { return writer->encoder().Comm(out, 100, 100, "variety", true, id); });
  add([&](auto out) { return writer->encoder().Mmap2(out, {.pid = 100, .tid = 100, .start = 0x400000, .length = 0x100000, .pgoff = 0x3000, .prot = 5, .filename = "/no/such/file"}, id); });
  add([&](auto out) { return writer->encoder().Fork(out, {.pid = 200, .ppid = 100, .tid = 200, .ptid = 100, .time = 20}, id); });
  std::vector<uint64_t> frames = {kContextKernel, 0xffffffff81000000, kContextUser};
  for (uint64_t i = 0; i < 140; ++i) frames.push_back(0x400000 + 16 * i);
  for (uint64_t i = 0; i < 2048; ++i) {
    brink_branch branch{i * 0x9e3779b97f4a7c15 >> (i % 64), i << (i % 60), (i & 15) | (i * 37 & 0xffff) << 4 | (i % 16) << 20 | (i % 5) << 26 | (i % 4) << 24};
    // perf 6.1 prints a name that it does not know for these as nothing or "(null)", by build.
    if ((branch.info >> 20 & 15) == 15) branch.info &= ~(15ull << 26);
    size_t event = i % 2;
    std::vector<brink_branch> stack(1 + i % 3, branch);
    add([&](auto out) {
      return writer->encoder(event).Sample(out, {.ip = 0x400000 + i, .pid = i % 3 ? 100u : 200u, .tid = i % 3 ? 100u : i % 2 ? 200u : 300u, .time = 1000 + i * 999'999'937,
                                                 .addr = i << 8, .id = writer->id(event), .cpu = static_cast<uint32_t>(i % 130), .period = i * i,
                                                 .chain = std::span(frames).first(i % frames.size()), .branches = stack, .weight = i});
    });
  }
  EXPECT_THAT(batch.Flush(), IsOk());
  EXPECT_THAT(writer->Finish({}), IsOk());
  return path;
}

class AgainstPerf : public testing::TestWithParam<const char*> {};

TEST_P(AgainstPerf, PrintsTheSameText) {
  if (Execute({"perf", "--version"}).status != 0) GTEST_SKIP() << "needs perf (package linux-perf)";
  for (bool chain : {false, true}) {
    for (int compression : {0, 3}) {
      TempDir dir;
      const std::string path = WriteVariety(dir, chain, compression);
      auto theirs = Execute({"perf", "script", "-i", path, "-F", GetParam()});
      ASSERT_EQ(theirs.status, 0) << theirs.err;
      auto ours = RunBrink({"script", "-i", path, "-F", GetParam()});
      ASSERT_EQ(ours.status, 0) << ours.err;
      if (ours.out == theirs.out) continue;
      size_t at = static_cast<size_t>(std::mismatch(ours.out.begin(), ours.out.end(), theirs.out.begin(), theirs.out.end()).first - ours.out.begin());
      size_t from = at > 100 ? at - 100 : 0;
      ADD_FAILURE() << "chain " << chain << ", first difference at " << at << "\nbrink: " << ours.out.substr(from, 250) << "\nperf:  " << theirs.out.substr(from, 250);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, AgainstPerf,
                         testing::Values("ip,brstack", "comm,pid,tid,cpu,time,event,period,ip,brstack", "comm,tid,time", "pid,event", "tid,ip", "time,period,brstack",
                                         "comm,ip"));

TEST(ScriptCommand, ReadsTheStandardInputLikeAFile) {
  TempDir dir;
  const std::string path = WriteVariety(dir, false, 0);
  auto file = RunBrink({"script", "-i", path, "-F", "ip,brstack"});
  auto redirected = Execute({"sh", "-c", testing_support::BrinkBinary() + " script -i - -F ip,brstack < " + path});
  auto piped = Execute({"sh", "-c", "cat " + path + " | " + testing_support::BrinkBinary() + " script -i - -F ip,brstack"});
  EXPECT_EQ(file.status, 0);
  EXPECT_TRUE(redirected.out == file.out && piped.out == file.out);
  EXPECT_NE(file.out, "");
}

TEST(ScriptCommand, SaysWhatIsDamagedAndExitsWithThree) {
  TempDir dir;
  const std::string path = WriteVariety(dir, false, 0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20000);
  file.write(std::string(4096, '\0').data(), 4096);
  file.close();
  auto run = RunBrink({"script", "-i", path, "-F", "ip"});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("at offset 0x4e"));
  EXPECT_THAT(run.err, HasSubstr("everything else was"));
  auto lines = std::count(run.out.begin(), run.out.end(), '\n');
  EXPECT_GT(lines, 1900);
  EXPECT_LT(lines, 2048);
}

TEST(ScriptCommand, EndsWithOneClearLineForBadInput) {
  TempDir dir;
  std::ofstream(dir.File("text")) << "this is no recording, but it is long enough to be looked at";
  struct Bad {
    std::vector<std::string> args;
    int status;
    const char* text;
  };
  for (const Bad& bad : std::vector<Bad>{{{"script", "-i", dir.File("none")}, 1, "No such file"},
                                         {{"script", "-i", dir.File("text")}, 1, "is not a perf.data recording"},
                                         {{"script", "-F", "nonsense"}, 2, "unknown field 'nonsense'"},
                                         {{"script", "--format", "xml"}, 2, "neither text nor json"},
                                         {{"script", "--format", "json", "-F", "ip"}, 2, "JSON has all of them"},
                                         {{"script", "--time", "5,1"}, 2, "ends before it begins"},
                                         {{"script", "--brstack-style", "old"}, 2, "neither perf61 nor new"},
                                         {{"script", "extra"}, 2, "unexpected word 'extra'"}}) {
    auto run = RunBrink(bad.args);
    EXPECT_EQ(run.status, bad.status) << bad.text;
    EXPECT_THAT(run.err, HasSubstr(bad.text));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(ScriptCommand, StopsQuietlyWhenNobodyReads) {
  TempDir dir;
  const std::string path = WriteVariety(dir, false, 0);
  auto run = Execute({"sh", "-c", testing_support::BrinkBinary() + " script -i " + path + " | head -1"});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
}

}  // namespace
}  // namespace brink::perfdata
