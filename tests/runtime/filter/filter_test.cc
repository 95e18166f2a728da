// Filters of the real binary: pushed into BPF while recording, and in software on the reading side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/features.h"
#include "support/process.h"

namespace brink {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::RunBrink;
using testing_support::TempDir;

std::string Stacks(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"script", "-i", file, "-F", "ip,brstack"};
  args.insert(args.end(), more.begin(), more.end());
  return RunBrink(args).out;
}

TEST(Filter, RecordedWithEqualsFilteredAfterwards) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  auto all = RunBrink({"record", "-a", "--replay-count", "512", "-o", dir.File("all.data")});
  ASSERT_EQ(all.status, 0) << all.err;
  for (const char* where : {"kind == call", "from < 0x404000 and kind == cond", "not kind == call", "mispredicted", "pid == 1"}) {
    auto filtered = RunBrink({"record", "-a", "--replay-count", "512", "--where", where, "-o", dir.File("f.data")});
    ASSERT_EQ(filtered.status, 0) << where << filtered.err;
    EXPECT_EQ(Stacks(dir.File("f.data")), Stacks(dir.File("all.data"), {"--where", where})) << where;
  }
  EXPECT_THAT(Stacks(dir.File("all.data"), {"--where", "kind == call"}), HasSubstr("0x401000"));
}

TEST(Filter, AFilteredRecordingSaysThatItHasGaps) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "--where", "kind == call", "-o", dir.File("f.data")}).status, 0);
  EXPECT_THAT(RunBrink({"script", "-i", dir.File("f.data"), "--dump-header"}).out, HasSubstr("contiguous false"));
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "--where", "cpu < 4096", "-o", dir.File("s.data")}).status, 0);
  EXPECT_THAT(RunBrink({"script", "-i", dir.File("s.data"), "--dump-header"}).out, HasSubstr("contiguous true"));
}

TEST(Filter, TheBrbeModelGivesTheSameLiveAndAfterwards) {
  SKIP_UNLESS("bpf.perf_event");
  TempDir dir;
  const std::string model = "numrec=16,brbfcr=0x200000,brbcr=0xC0013B";
  ASSERT_EQ(RunBrink({"record", "-a", "--replay-count", "512", "-o", dir.File("all.data")}).status, 0);
  auto live = RunBrink({"record", "-a", "--replay-count", "512", "--brbe-model", model, "-o", dir.File("m.data")});
  ASSERT_EQ(live.status, 0) << live.err;
  EXPECT_EQ(Stacks(dir.File("m.data")), Stacks(dir.File("all.data"), {"--brbe-model", model}));
  auto json = RunBrink({"script", "-i", dir.File("m.data"), "-n", "1"});
  EXPECT_THAT(json.out, HasSubstr("to user"));
  EXPECT_THAT(json.out, Not(HasSubstr("cond")));
}

struct Refusal {
  std::vector<std::string> words;
  int status;
  const char* says;
};

TEST(Filter, MistakesAreNamed) {
  const std::vector<Refusal> refusals = {
      {{"filter", "check", "kind == rett"}, 2, "column 9"},
      {{"filter", "check", "kind == ret and kind == call"}, 1, "exclude each other"},
      {{"filter", "chek", "kind == ret"}, 2, "neither check nor explain"},
      {{"record", "-a", "--where", "symbol == main"}, 2, "report --where"},
      {{"record", "-a", "--where", "kind == cal"}, 2, "did you mean call"},
      {{"record", "-a", "-j", "any,mispred"}, 2, "no hardware filters on misprediction"},
      {{"record", "-a", "-j", "stack"}, 2, "-g for call chains"},
      {{"record", "-a", "-e", "arm_brbe/mpred1/"}, 2, "there is no PMU 'arm_brbe'"},
      {{"annotate", "--branch-history"}, 2, "belongs to report"},
      {{"record", "-a", "--brbe-model", "numrec=24"}, 2, "8, 16, 32 or 64"},
      {{"brbe", "decode", "BRBCR_EL9=1"}, 2, "unknown register"},
      {{"brbe", "program", "kind == jump", "--as", "basic"}, 2, "asm, c or explain"},
  };
  for (const Refusal& refusal : refusals) {
    auto result = RunBrink(refusal.words);
    EXPECT_EQ(result.status, refusal.status) << refusal.says << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.says));
  }
}

TEST(Filter, ExplainPrintsTheReferenceValues) {
  EXPECT_THAT(RunBrink({"filter", "explain", "-j any_call,u"}).out, HasSubstr("0x0E5"));
  EXPECT_THAT(RunBrink({"filter", "explain", "priv == user"}).out, HasSubstr("0x7F0005"));
  auto any = RunBrink({"filter", "explain", "-j", "any,u,k"}).out;
  EXPECT_THAT(any, HasSubstr("0x7E0000"));
  EXPECT_THAT(any, HasSubstr("0xC0013B"));
}

}  // namespace
}  // namespace brink
